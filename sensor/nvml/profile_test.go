package nvml

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"reckon/sensor"
)

// hopper is a device with GPM values of half the tensor pipes and 100 MiB/s over PCIe to
// the device, and none for FP64.
func hopper() *fake {
	f := farm(1, 2)
	f.gpus[0].gpm = map[uint32]float64{gpmSM: 80, gpmTensor: 50, gpmDRAM: 25, gpmPCIeGot: 100}
	return f
}

func TestProfile(t *testing.T) {
	s, next := start(t, hopper())
	absent(t, read(t, s), "tensor") // one sample is not enough
	for range 4 {
		next()
	}
	got := read(t, s) // 4 s later
	want(t, got, "gpu_engine_busy_seconds_total|"+first+"|tensor", 2)
	want(t, got, "gpu_engine_busy_seconds_total|"+first+"|sm", 3.2)
	want(t, got, "gpu_engine_busy_seconds_total|"+first+"|dram", 1)
	want(t, got, "gpu_link_bytes_total|"+first+"|pcie|received", 400<<20)
	absent(t, got, "fp64")
	next()
	want(t, read(t, s), "gpu_engine_busy_seconds_total|"+first+"|tensor", 2.5)
}

// A second reading within the update interval of the device's counters takes no sample,
// so that the next one covers all of the time.
func TestProfileTooSoon(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  float64
	}{{minGPMInterval - time.Millisecond, 0}, {minGPMInterval, 0.05}} {
		s, _ := start(t, hopper())
		now := time.Now()
		s.reader.now = func() time.Time { return now }
		read(t, s)
		now = now.Add(c.after)
		got := read(t, s)
		if c.want == 0 {
			absent(t, got, "tensor")
		} else {
			want(t, got, "gpu_engine_busy_seconds_total|"+first+"|tensor", c.want)
		}
		now = now.Add(time.Second)
		want(t, read(t, s), "gpu_engine_busy_seconds_total|"+first+"|tensor", (c.after.Seconds()+1)/2)
	}
}

// A lost device, and a gap that is too long, count nothing; a device without GPM or
// without access to it has no such series.
func TestProfileAbsent(t *testing.T) {
	f := hopper()
	s, next := start(t, f)
	read(t, s)
	next()
	f.gpus[0].lost = codeGPULost
	absent(t, read(t, s), "tensor")
	next()
	f.gpus[0].lost = 0
	read(t, s)
	next()
	read(t, s)
	next()
	want(t, read(t, s), "gpu_engine_busy_seconds_total|"+first+"|tensor", 0.5)

	for name, f := range map[string]*fake{"older than Hopper": farm(1, 2), "no permission": hopper()} {
		if name == "no permission" {
			f.gpus[0].noGPM = codeNoPermission
		}
		s, next := start(t, f)
		read(t, s)
		next()
		got := read(t, s)
		absent(t, got, "tensor")
		absent(t, got, "|pcie|")
		want(t, got, "gpu_busy_counted|"+first, 0)
		if !s.reader.devices[0].gpm.no {
			t.Errorf("%s: asked again and again", name)
		}
	}
}

func TestProfileOfInstance(t *testing.T) {
	f := farm(1, 0)
	g := f.gpus[0]
	g.canMIG, g.gpm = true, map[uint32]float64{}
	for i, share := range []float64{30, 60} {
		g.mig = append(g.mig, &fakeGPU{uuid: []string{"MIG-a", "MIG-b"}[i], size: 10 << 30, instance: uint32(7 + i),
			gpm: map[uint32]float64{gpmTensor: share}})
	}
	s, next := start(t, f)
	read(t, s)
	next()
	got := read(t, s)
	want(t, got, "gpu_engine_busy_seconds_total|nvidia|MIG-a|0|tensor", 0.3)
	want(t, got, "gpu_engine_busy_seconds_total|nvidia|MIG-b|0|tensor", 0.6)
	absent(t, got, "gpu_busy_counted|nvidia|GPU-0")
	g.mig = g.mig[:1] // one instance is removed: its samples are freed
	next()
	read(t, s)
	held := 0
	for _, n := range f.samples {
		if n != 0 {
			held++
		}
	}
	if held != 2 {
		t.Errorf("%d samples are held for one instance", held)
	}
}

func TestXid(t *testing.T) {
	f := farm(2, 0)
	s, next := start(t, f)
	want(t, read(t, s), "gpu_xid_last|"+first, 0)
	f.pending = []xidEvent{{device: 100, kind: eventXid, data: 31}, {device: 200, kind: eventXid, data: 79}, {device: 100, kind: 2},
		{device: 100, kind: eventXid, data: 31}}
	next()
	got := read(t, s)
	want(t, got, "gpu_xid_errors_total|"+first+"|31|"+xidMeanings[31], 2)
	want(t, got, "gpu_xid_last|"+first, 31)
	second := "nvidia|GPU-00000001-0000-0000-0000-000000000000|1"
	want(t, got, "gpu_xid_last|"+second, 79)
	want(t, got, "gpu_xid_errors_total|"+second+"|79|"+xidMeanings[79], 1)
	// A reloaded driver is watched again.
	f.gone = true
	next()
	read(t, s)
	next()
	read(t, s)
	f.pending = []xidEvent{{device: 100, kind: eventXid, data: 9999}}
	next()
	next()
	read(t, s)
	got = read(t, s)
	want(t, got, "gpu_xid_errors_total|"+first+"|9999|see the list of Xid errors of NVIDIA", 1)
}

func TestLinksAndRows(t *testing.T) {
	f := farm(1, 0)
	g := f.gpus[0]
	g.fields = map[uint32]uint64{fieldNVLinkSent: 1000, fieldNVLinkGot: 2000, fieldRowsBad: 1, fieldRowsPending: 1, fieldRowsFailed: 0}
	g.linkFields = map[uint32]uint64{fieldLinkReplay: 3, fieldLinkCRC: 0}
	g.gpm = map[uint32]float64{gpmNVLinkSent: 1e6}
	g.reserved = 600 << 20
	s, next := start(t, f)
	read(t, s)
	g.fields[fieldNVLinkSent] += 512
	next()
	got := read(t, s)
	want(t, got, "gpu_link_bytes_total|"+first+"|nvlink|sent", 512<<10) // by the counter, not by GPM
	want(t, got, "gpu_link_bytes_total|"+first+"|nvlink|received", 0)
	want(t, got, "gpu_link_errors_total|"+first+"|nvlink|replay", 6)
	want(t, got, "gpu_link_errors_total|"+first+"|nvlink|crc_flit", 0)
	absent(t, got, "recovery")
	want(t, got, "gpu_remapped_rows|"+first+"|uncorrected", 1)
	absent(t, got, "gpu_remapped_rows|"+first+"|corrected")
	want(t, got, "gpu_remap_pending|"+first, 1)
	want(t, got, "gpu_remap_failed|"+first, 0)
	want(t, got, "gpu_memory_reserved_bytes|"+first, 600<<20)
}

func TestCoders(t *testing.T) {
	f := farm(1, 0)
	f.gpus[0].noSamples, f.gpus[0].coder = true, 40
	s, next := start(t, f)
	step := func(seconds int) {
		for range seconds {
			if err := s.ReadGPU(new(sensor.GPUPass)); err != nil {
				t.Fatal(err)
			}
			next()
		}
	}
	step(10) // it is asked every ten seconds
	got := read(t, s)
	want(t, got, "gpu_engine_busy_seconds_total|"+first+"|encoder", 4)
	want(t, got, "gpu_engine_busy_seconds_total|"+first+"|decoder", 4)
	f.gpus[0].coder = 0
	step(10)
	absent(t, read(t, s), "encoder")
}

// Under MPS a driver may charge all use to the server. The server computes nothing of its
// own: it is removed, and its clients are listed as users with memory only.
func TestMPS(t *testing.T) {
	for name, c := range map[string]struct {
		uses []processSample
		busy map[int32]float64
	}{
		"use of the server": {[]processSample{{pid: 50, sm: 60}}, map[int32]float64{}},
		"use of each":       {[]processSample{{pid: 51, sm: 40}, {pid: 52, sm: 10}}, map[int32]float64{51: 0.4, 52: 0.1}},
		"nobody computes":   {nil, map[int32]float64{51: 0, 52: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for pid, comm := range map[string]string{"50": mpsServer, "51": "train", "52": "infer"} {
				if err := os.MkdirAll(filepath.Join(root, "proc", pid), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, "proc", pid, "comm"), []byte(comm+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			f := farm(1, 0)
			g := f.gpus[0]
			g.lists[listCompute] = []processInfo{{pid: 50, memory: 30 << 20}}
			g.lists[listMPS] = []processInfo{{pid: 51, memory: 3 << 30}, {pid: 52, memory: 1 << 30}}
			g.uses = c.uses
			s, err := openSensor(f, root)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			now := time.Now()
			s.reader.now = func() time.Time { return now }
			var p sensor.GPUPass
			for range 2 {
				now = now.Add(time.Second)
				f.pass()
				p.Reset()
				if err := s.ReadGPU(&p); err != nil {
					t.Fatal(err)
				}
			}
			if len(p.Uses) != 2 {
				t.Fatalf("%+v", p.Uses)
			}
			for _, u := range p.Uses {
				if u.Have&sensor.GPUMemory == 0 {
					t.Errorf("%d: no memory", u.PID)
				}
				if want, ok := c.busy[u.PID]; ok != (u.Have&sensor.GPUBusy != 0) || math.Abs(u.Busy-want) > 1e-9 {
					t.Errorf("%d: busy %v (%v), want %v (%v)", u.PID, u.Busy, u.Have&sensor.GPUBusy != 0, want, ok)
				}
			}
		})
	}
}
