package tegra

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"reckon/sensor"
)

// clients is a list in the format of the memory driver of L4T 32 and 35; names and sizes
// are invented.
const clients = `CLIENT                        PROCESS      PID        SIZE
user                        python3     4711     2048K
user                    gst launch 1     4712    65536K
user                         Xorg       900      512K
user                 nvargus-daemon      901     8192K
total                                            76288K
`

// holder creates a process with open files.
func holder(t testing.TB, root, pid string, links ...string) {
	t.Helper()
	dir := filepath.Join(root, "proc", pid, "fd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, string(rune('0'+i)))); err != nil {
			t.Fatal(err)
		}
	}
}

func pass(t testing.TB, s *Sensor) (sensor.GPUPass, map[int32]int64) {
	t.Helper()
	var p sensor.GPUPass
	if err := s.ReadGPU(&p); err != nil {
		t.Fatal(err)
	}
	uses := map[int32]int64{}
	for _, u := range p.Uses {
		if u.Device != Device || u.Have&sensor.GPUBusy != 0 {
			t.Errorf("%+v, want memory at most, of %s", u, Device)
		}
		uses[u.PID] = -1
		if u.Have&sensor.GPUMemory != 0 {
			uses[u.PID] = int64(u.Memory)
		}
	}
	return p, uses
}

func TestGPU(t *testing.T) {
	root := tree(t, "agx-orin")
	put(t, root, "proc/device-tree/model", "NVIDIA Jetson AGX Orin\x00")
	put(t, root, "sys/kernel/debug/nvmap/iovmm/clients", clients)
	holder(t, root, "4711", "/dev/null", "/dev/nvgpu/igpu0/channel")
	holder(t, root, "4712", "anon_inode:nvgpu-ga10b-tsg12")
	holder(t, root, "900", "/dev/nvmap", "/dev/nvgpu/igpu0/ctrl")
	holder(t, root, "901", "/dev/nvmap", "/dev/nvhost-vi0")
	s := open(t, Options{Root: root})
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	p, uses := pass(t, s)
	if len(p.Devices) != 1 || p.Devices[0].Span != 0 || p.Devices[0].Model != "NVIDIA Jetson AGX Orin" {
		t.Fatalf("%+v, want one device without a past", p.Devices)
	}
	if want := map[int32]int64{4711: 2 << 20, 4712: 64 << 20}; !maps.Equal(uses, want) {
		t.Errorf("the GPU is open by %v, want %v", uses, want)
	}
	now = now.Add(2 * time.Second)
	p, _ = pass(t, s)
	if d := p.Devices[0]; d.Span != 2 || math.Abs(d.Busy-0.874) > 1e-9 || d.Memory != 66<<20 {
		t.Errorf("%+v, want 0.874 s of 2 s, 66 MiB", d)
	}
	got := read(t, s)
	if v := got[`reckon_gpu_busy_seconds_total{vendor="nvidia",device="igpu0",index="0"}`]; math.Abs(v-0.874) > 1e-9 {
		t.Errorf("busy for %v s in all of %v", v, slices.Sorted(maps.Keys(got)))
	}
	// Its rail is a meter beside the board's.
	if w := got[`reckon_node_power_watts{domain="gpu",zone="igpu0",method="measured"}`]; math.Abs(w-2.39) > 1e-9 {
		t.Errorf("the GPU draws %v W, want 2.39", w)
	}
	// A blank load: nothing counts, and nothing for the time without it.
	put(t, root, "sys/class/devfreq/17000000.gpu/device/load", "2000\n")
	now = now.Add(10 * time.Second)
	if p, _ = pass(t, s); len(p.Devices) != 0 {
		t.Errorf("a GPU with a blank load: %+v", p.Devices)
	}
	put(t, root, "sys/class/devfreq/17000000.gpu/device/load", "1000\n")
	now = now.Add(time.Second)
	if p, _ = pass(t, s); p.Devices[0].Span != 0 {
		t.Errorf("the time without a load counts: %+v", p.Devices)
	}
}

// Without the list of the memory driver the users of the GPU are found, and their memory is unknown.
func TestGPUWithoutDebugfs(t *testing.T) {
	root := tree(t, "nano")
	holder(t, root, "17", "/dev/nvhost-gpu")
	holder(t, root, "18", "/dev/nvhost-ctrl-gpu", "/dev/nvhost-vic")
	s := open(t, Options{Root: root})
	p, uses := pass(t, s)
	if want := map[int32]int64{17: -1}; !maps.Equal(uses, want) || p.Devices[0].Have&sensor.GPUMemory != 0 {
		t.Errorf("%v, %+v, want %v and no memory", uses, p.Devices, want)
	}
}

// Thor's GPU is read by NVML, and Orin NX has no rail of the GPU alone.
func TestGPUOfOthers(t *testing.T) {
	s := open(t, Options{Root: tree(t, "thor")})
	if p, _ := pass(t, s); len(p.Devices) != 0 {
		t.Errorf("Thor has %+v here", p.Devices)
	}
	root := tree(t, "agx-orin")
	put(t, root, "sys/class/hwmon/hwmon3/in1_label", "VDD_CPU_GPU_CV\n")
	m, err := open(t, Options{Root: root}).ReadMeters(nil)
	if err != nil || slices.ContainsFunc(m, func(m sensor.Meter) bool { return m.Domain == sensor.DomainGPU }) {
		t.Errorf("%v, %v, want no meter of the GPU", m, err)
	}
}

func FuzzClients(f *testing.F) {
	f.Add([]byte(clients))
	f.Add([]byte("user x 1 9999999999999999999K\nuser  -1 3K\n\n  \nuser y 7 M"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := map[int32]uint64{}
		parseClients(text, got)
		for pid := range got {
			if pid <= 0 {
				t.Fatalf("process %d of %q", pid, text)
			}
		}
	})
}
