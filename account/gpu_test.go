package account

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"reckon/metric"
	"reckon/sensor"
)

const both = sensor.GPUBusy | sensor.GPUMemory
const sampled = both | sensor.GPUSampled

func gpuOf(name string, busy float64) sensor.GPU {
	return sensor.GPU{Vendor: "nvidia", Device: name, Span: 1, Busy: busy, Have: both}
}

func (r *rig) gpu(devices []sensor.GPU, uses ...sensor.GPUUse) []GPUShare {
	return r.l.GPU(&sensor.GPUPass{Devices: devices, Uses: uses})
}

func (r *rig) gpuSeconds(id, owner, device, method string) float64 {
	kind, _, _ := strings.Cut(id, "/")
	return r.values["reckon_workload_gpu_seconds_total|"+id+"|"+kind+"||"+owner+"|nvidia|"+device+"|"+method]
}

// TestDeviceThatNobodyOpens: the time of an unopened device is exported, all of it idle,
// so that the use of an allocated but unopened device is zero; no workload has a series
// of it.
func TestDeviceThatNobodyOpens(t *testing.T) {
	r := newRig(t, Config{})
	for range 3 {
		r.tick(0, []sensor.Process{proc(10, 10, 5*second, 0)})
		r.gpu([]sensor.GPU{gpuOf("g", 0)})
	}
	r.export()
	for state, want := range map[string]float64{"busy": 0, "idle": 3} {
		if v, ok := r.values["reckon_node_gpu_seconds_total|nvidia|g|"+state]; !ok || v != want {
			t.Errorf("%s: %v, %v, want %v", state, v, ok, want)
		}
	}
	for k := range r.values {
		if strings.HasPrefix(k, "reckon_workload_gpu") {
			t.Errorf("%s is there", k)
		}
	}
}

func TestGPUSplit(t *testing.T) {
	two := []sensor.Process{proc(10, 10, 5*second, 0), proc(20, 20, 5*second, 0)}
	for _, c := range []struct {
		name         string
		busy         float64
		uses         []sensor.GPUUse
		a, b, other  float64
		method       string
		otherMeasure string
	}{
		{"measured", 0.9, []sensor.GPUUse{{PID: 10, Have: both, Busy: 0.5}, {PID: 20, Have: both, Busy: 0.25}}, 0.5, 0.25, 0.15, "measured",
			"measured"},
		{"sampled", 0.9, []sensor.GPUUse{{PID: 10, Have: sampled, Busy: 0.5}, {PID: 20, Have: sampled, Busy: 0.25}}, 0.6, 0.3, 0,
			"measured-by-samples", ""},
		{"idle users, sampled", 0.5, []sensor.GPUUse{{PID: 10, Have: sampled, Memory: 1}, {PID: 20, Have: sampled, Memory: 4}}, 0.1, 0.4, 0,
			"measured-by-memory", ""},
		{"side by side", 0.6, []sensor.GPUUse{{PID: 10, Have: both, Busy: 0.6}, {PID: 20, Have: both, Busy: 0.6}}, 0.3, 0.3, 0, "measured",
			"measured"},
		{"alone", 0.9, []sensor.GPUUse{{PID: 10, Have: both, Busy: 0.7}}, 0.9, 0, 0, "measured", "measured"},
		{"by memory", 0.8, []sensor.GPUUse{{PID: 10, Have: sensor.GPUMemory, Memory: 3}, {PID: 20, Have: sensor.GPUMemory, Memory: 1}}, 0.6,
			0.2, 0, "measured-by-memory", ""},
		{"evenly", 0.8, []sensor.GPUUse{{PID: 10}, {PID: 20}}, 0.4, 0.4, 0, "measured-equally", ""},
		{"nobody", 0.8, nil, 0, 0, 0.8, "measured", "measured"},
		{"a stranger", 0.8, []sensor.GPUUse{{PID: 99, Have: both, Busy: 0.8}}, 0, 0, 0.8, "measured", "measured"},
		{"idle users", 0.5, []sensor.GPUUse{{PID: 10, Have: both}, {PID: 20, Have: both}}, 0, 0, 0.5, "measured", "measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			r.tick(0, two)
			for i := range c.uses {
				c.uses[i].Device = "g"
			}
			r.gpu([]sensor.GPU{gpuOf("g", c.busy)}, c.uses...)
			for range 2 { // what the first could not report
				r.gpu([]sensor.GPU{gpuOf("g", 0)}, still(c.uses)...)
			}
			r.export()
			r.want("first", r.gpuSeconds("group/n1/10", "alice", "g", c.method), c.a)
			r.want("second", r.gpuSeconds("group/n1/20", "alice", "g", c.method), c.b)
			r.want("other", r.gpuSeconds("other/n1", "root", "g", "measured"), c.other)
			r.want("busy", r.values["reckon_node_gpu_seconds_total|nvidia|g|busy"], c.busy)
			r.want("idle", r.values["reckon_node_gpu_seconds_total|nvidia|g|idle"], 3-c.busy)
		})
	}
}

// still are the same users that compute no more.
func still(uses []sensor.GPUUse) (out []sensor.GPUUse) {
	for _, u := range uses {
		u.Busy = 0
		out = append(out, u)
	}
	return out
}

func TestGPUMemory(t *testing.T) {
	r := newRig(t, Config{})
	p := []sensor.Process{proc(10, 10, 5*second, 0), proc(11, 10, 5*second, 0)}
	const held = "|group/n1/10|group||alice|nvidia|g"
	for range 3 {
		r.tick(0, p)
		r.gpu([]sensor.GPU{gpuOf("g", 0)},
			sensor.GPUUse{PID: 10, Device: "g", Have: sensor.GPUMemory, Memory: 100},
			sensor.GPUUse{PID: 11, Device: "g", Have: sensor.GPUMemory, Memory: 50})
	}
	r.export()
	r.want("memory", r.values["reckon_workload_gpu_memory_bytes"+held], 150)
	r.want("byte-seconds", r.values["reckon_workload_gpu_memory_byte_seconds_total"+held], 450)
	r.tick(0, p)
	r.gpu(nil) // the device vanished
	r.export()
	if v, ok := r.values["reckon_workload_gpu_memory_bytes"+held]; ok {
		t.Errorf("memory of a device that is away: %v", v)
	}
	r.want("byte-seconds", r.values["reckon_workload_gpu_memory_byte_seconds_total"+held], 450)
}

// What a process held between two exports is in the highest memory, and what the device computed after its last reading is its own,
// also where the kernel counts each process: nobody else had the device open.
func TestGPULastTick(t *testing.T) {
	for name, have := range map[string]sensor.GPUFields{"not counted": sensor.GPUMemory, "counted": both, "sampled": sampled} {
		r := newRig(t, Config{})
		p, q := proc(10, 10, 1000*second, 0), proc(20, 20, 5*second, 0)
		r.tick(0, []sensor.Process{p, q})
		r.gpu([]sensor.GPU{gpuOf("g", 0.5)}, sensor.GPUUse{PID: 10, Device: "g", Have: have, Busy: 0.5, Memory: 4 << 30})
		p.UserNanos = 2 * second
		r.tick(0, []sensor.Process{q}, p)
		r.gpu([]sensor.GPU{gpuOf("g", 0.4)})
		r.export()
		r.want(name, r.gpuSeconds("group/n1/10", "alice", "g", "measured"), 0.9)
		r.want("other", r.gpuSeconds("other/n1", "root", "g", "measured"), 0)
		r.want("peak", r.values["reckon_workload_gpu_memory_peak_bytes|group/n1/10|group||alice|nvidia|g"], 4<<30)
	}
}

// A process that the device lists before any pass shows it is charged once it is known; a part that ended while the driver does not
// answer is exported to its end after the answer.
func TestGPULate(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, nil)
	use := sensor.GPUUse{PID: 10, Device: "g", Have: sensor.GPUMemory, Memory: 1}
	r.gpu([]sensor.GPU{gpuOf("g", 0.5)}, use)
	p := proc(10, 10, 1000*second, 2*second)
	r.tick(0, []sensor.Process{p})
	r.gpu([]sensor.GPU{gpuOf("g", 0.5)}, use)
	r.tick(0, nil, p)
	still := gpuOf("g", 0)
	still.Span = 0
	r.gpu([]sensor.GPU{still}, use)
	r.export()
	r.tick(0, nil)
	r.gpu([]sensor.GPU{gpuOf("g", 0.25)})
	r.export()
	r.want("all", r.gpuSeconds("group/n1/10", "alice", "g", "measured"), 1.25)
}

// The busy time of a partition is unknown: its memory counts, its seconds are absent, and
// its share goes to the meter of the whole device.
func TestGPUPartitions(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 0)})
	shares := r.gpu([]sensor.GPU{
		{Vendor: "nvidia", Device: "g", Span: 1, Have: sensor.GPUMemory},
		{Vendor: "nvidia", Device: "MIG-a", Parent: "g", Span: 1, Have: sensor.GPUMemory},
		{Vendor: "nvidia", Device: "MIG-b", Parent: "g", Span: 1, Have: sensor.GPUMemory},
	}, sensor.GPUUse{PID: 10, Device: "MIG-a", Have: sensor.GPUMemory, Memory: 5},
		sensor.GPUUse{PID: 10, Device: "MIG-b", Have: sensor.GPUMemory, Memory: 6})
	if len(shares) != 1 || shares[0].Device != "g" || shares[0].Memory != 11 || shares[0].HasBusy {
		t.Errorf("shares %+v, want one of 11 bytes of g", shares)
	}
	r.export()
	for k := range r.values {
		if strings.Contains(k, "gpu_seconds") {
			t.Errorf("%s is there, and nobody knows it", k)
		}
	}
	r.want("memory", r.values["reckon_workload_gpu_memory_bytes|group/n1/10|group||alice|nvidia|MIG-b"], 6)
}

// On random traces, with devices that come and go, unidentified processes, work that is
// folded and restarts of the agent, workloads, other and idle add up to the time of each
// device.
func TestGPUConservation(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		r := newRig(t, Config{})
		last, flushed := map[string]float64{}, map[string]float64{}
		restarted := false
		var ended float64
		span := 0.0
		collect := func() {
			var b metric.Batch
			r.l.Export(&b)
			now, again := map[string]float64{}, map[string]float64{}
			for _, s := range b.Samples {
				if n := s.Series.Desc.Name; n != "reckon_workload_gpu_seconds_total" && n != "reckon_node_gpu_seconds_total" {
					continue
				}
				k := s.Series.Desc.Name + fmt.Sprint(s.Series.Values)
				if s.Value < last[k]-1e-9 {
					t.Fatalf("seed %d: %s fell from %v to %v", seed, k, last[k], s.Value)
				}
				if s.Last {
					if v, ok := flushed[k]; !ok || !restarted || v != s.Value { // otherwise it is exported once more
						ended += s.Value
					}
					again[k] = s.Value
					delete(last, k)
					continue
				}
				now[k] = s.Value
			}
			for k, v := range last {
				if _, ok := now[k]; !ok {
					t.Fatalf("seed %d: %s (%v) is gone without a last sample", seed, k, v)
				}
			}
			last, flushed, restarted = now, again, false
		}
		check := func() {
			workloads, busy, idle := ended, 0.0, 0.0
			for k, v := range last {
				switch {
				case strings.HasPrefix(k, "reckon_workload_gpu_seconds_total"):
					workloads += v
				case strings.HasSuffix(k, "busy]"):
					busy += v
				default:
					idle += v
				}
			}
			if math.Abs(workloads-busy) > 1e-6 || math.Abs(busy+idle-span) > 1e-6 {
				t.Fatalf("seed %d: workloads and other %v, busy %v, idle %v, device time %v", seed, workloads, busy, idle, span)
			}
		}
		live := map[int32]sensor.Process{}
		for step := range 120 {
			if rnd.IntN(3) == 0 {
				pid := int32(10 + rnd.IntN(12))
				live[pid] = proc(pid, pid, r.boot+1, 0)
			}
			var processes, exited []sensor.Process
			for pid, p := range live {
				p.UserNanos += rnd.Uint64N(second / 20)
				live[pid] = p
				if rnd.IntN(8) == 0 {
					exited = append(exited, p)
					delete(live, pid)
				} else {
					processes = append(processes, p)
				}
			}
			r.tick(second, processes, exited...)
			var pass sensor.GPUPass
			for i := range 3 {
				if rnd.IntN(5) == 0 {
					continue // it is lost
				}
				g := gpuOf(fmt.Sprint("g", i), rnd.Float64()*1.2)
				g.Span = rnd.Float64() * 2
				if i == 2 && rnd.IntN(2) == 0 {
					g.Have &^= sensor.GPUBusy
				}
				users := 0
				for range rnd.IntN(5) {
					u := sensor.GPUUse{PID: int32(8 + rnd.IntN(16)), Device: g.Device, Busy: rnd.Float64(), Memory: rnd.Uint64N(1 << 34)}
					u.Have = sensor.GPUFields(rnd.IntN(4))
					if u.Have&sensor.GPUBusy != 0 {
						users++
					}
					pass.Uses = append(pass.Uses, u)
				}
				if g.Have&sensor.GPUBusy != 0 || users > 0 {
					span += g.Span
				}
				pass.Devices = append(pass.Devices, g)
			}
			seen := map[GPUShare]bool{}
			for _, s := range r.l.GPU(&pass) {
				k := GPUShare{Account: s.Account, Device: s.Device}
				if seen[k] {
					t.Fatalf("seed %d: two shares of %s for one part", seed, s.Device)
				}
				seen[k] = true
			}
			if rnd.IntN(7) == 0 {
				collect()
			}
			if step == 60 {
				restarted = true
				r.restart()
			}
		}
		r.tick(0, nil)
		for range 3 { // what was put off
			pass := sensor.GPUPass{}
			for i := range 3 {
				pass.Devices = append(pass.Devices, gpuOf(fmt.Sprint("g", i), 0))
				span++
			}
			r.l.GPU(&pass)
		}
		collect()
		check()
	}
}

func TestGPUAllocatesNothing(t *testing.T) {
	r := newRig(t, Config{})
	var live []sensor.Process
	var pass sensor.GPUPass
	for i := range 8 {
		pass.Devices = append(pass.Devices, gpuOf(fmt.Sprint("g", i), 0.5))
	}
	for i := range int32(400) {
		live = append(live, proc(10+i, 10+i, 5*second, 0))
		pass.Uses = append(pass.Uses, sensor.GPUUse{PID: 10 + i, Device: fmt.Sprint("g", i%8), Have: both, Busy: 0.01, Memory: 1 << 20})
	}
	r.tick(0, live)
	r.l.GPU(&pass)
	r.tick(0, live)
	if n := testing.AllocsPerRun(20, func() { r.l.GPU(&pass) }); n != 0 {
		t.Errorf("a tick allocates %v times", n)
	}
}

// BenchmarkGPU is the accounts of eight devices that a thousand workloads use.
func BenchmarkGPU(b *testing.B) {
	l := New(Config{Node: "n1", Identify: byGroup})
	var task sensor.Pass
	var pass sensor.GPUPass
	for i := range 8 {
		pass.Devices = append(pass.Devices, gpuOf(fmt.Sprint("GPU-0000000", i), 0.5))
	}
	for i := range int32(1000) {
		task.Live = append(task.Live, proc(10+i, 10+i, 5*second, 0))
		pass.Uses = append(pass.Uses, sensor.GPUUse{PID: 10 + i, Device: fmt.Sprint("GPU-0000000", i%8), Have: both, Busy: 0.004,
			Memory: 1 << 20})
	}
	task.Boot = 10 * second
	l.Tick(wall, &task, nil)
	b.ReportAllocs()
	for b.Loop() {
		l.GPU(&pass)
	}
}
