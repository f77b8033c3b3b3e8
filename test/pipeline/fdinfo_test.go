package pipeline_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reckon/sensor"
	"reckon/sensor/all"
	"reckon/sensor/replay/recording"
	"reckon/store"
	"reckon/test/pipeline"
)

// fdinfo is a machine with a Radeon and an Intel GPU, as trees of sysfs and /proc (Documentation/gpu/drm-usage-stats.rst; the figures are
// invented), and the task source that brings it to each second.
type fdinfo struct {
	t     *testing.T
	root  string
	at    int
	opens bool
}

const (
	radeon, arc = "0000:05:00.0", "0000:03:00.0"
	lasts       = 16 // seconds
	boot        = uint64(3600e9)
)

func (m *fdinfo) write(path, text string) {
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *fdinfo) link(target, path string) {
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	_ = os.Symlink(target, path) // it may be there
}

func (m *fdinfo) card(n int, pci, driver string) {
	m.link("../../../bus/pci/drivers/"+driver, "sys/devices/"+pci+"/driver")
	m.link("../../../devices/"+pci, fmt.Sprintf("sys/class/drm/card%d/device", n))
	m.write("sys/devices/"+pci+"/vendor", map[string]string{"amdgpu": "0x1002\n", "i915": "0x8086\n"}[driver])
	m.write(fmt.Sprintf("sys/devices/%s/drm/card%d/dev", pci, n), fmt.Sprintf("226:%d\n", n))
	m.write(fmt.Sprintf("sys/devices/%s/drm/renderD%d/dev", pci, 128+n), fmt.Sprintf("226:%d\n", 128+n))
}

// user is a client of a device that has computed for so many seconds and holds so many MiB.
func (m *fdinfo) user(pid int, driver, pci, engine string, seconds float64, mib int) {
	m.link("/dev/dri/renderD128", fmt.Sprintf("proc/%d/fd/5", pid))
	m.write(fmt.Sprintf("proc/%d/fdinfo/5", pid), fmt.Sprintf("drm-driver:\t%s\ndrm-pdev:\t%s\ndrm-client-id:\t%d\ndrm-engine-%s:\t%d ns\n"+
		"drm-resident-%s:\t%d MiB\n", driver, pci, pid, engine, int64(seconds*1e9), map[string]string{"amdgpu": "vram", "i915": "local0"}[driver], mib))
}

func (m *fdinfo) exit(pid int) {
	_ = os.Truncate(filepath.Join(m.root, fmt.Sprintf("proc/%d/fdinfo/5", pid)), 0) // open descriptors return nothing any more
	if err := os.RemoveAll(filepath.Join(m.root, fmt.Sprintf("proc/%d", pid))); err != nil {
		m.t.Fatal(err)
	}
}

func (m *fdinfo) Name() string { return "script" }
func (m *fdinfo) Close() error { return nil }

// Read brings the machine to the next second and reports its processes.
func (m *fdinfo) Read(p *sensor.Pass) error {
	t := float64(m.at)
	over := func(from, to float64) float64 { return max(min(t, to)-max(t-1, from), 0) } // of the second before
	lives := func(pid, pgid int32, from, to float64) {
		q := sensor.Process{PID: pid, PPID: 1, PGID: pgid, SID: pgid, UID: 1000, Start: boot + uint64(from*1e9), State: 'S', Threads: 1,
			UserNanos: uint64(max(min(t, to)-from, 0) * 1e9), Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldCPUSplit}
		switch {
		case from > t || to < t-1:
		case to < t:
			q.Life = uint64((to - from) * 1e9)
			p.Exited = append(p.Exited, q)
		default:
			p.Live = append(p.Live, q)
		}
	}
	p.Boot, p.Joined = boot+uint64(t*1e9), true
	lives(100, 100, -5, 99)     // holds 4 GiB of the Radeon, and computed before
	lives(200, 200, 2.5, 8.5)   // computes half of its time, and holds 8 GiB for a moment
	lives(300, 310, 11.2, 11.8) // of a shell; computes for 0.3 s, and no reading shows it
	lives(310, 310, -5, 99)
	lives(400, 400, 3.5, 7.5) // computes on the Intel GPU all the time
	if t == 0 {
		m.card(0, radeon, "amdgpu")
		m.card(1, arc, "i915")
		m.write("sys/devices/"+radeon+"/mem_info_vram_total", fmt.Sprint(64<<30))
		m.user(100, "amdgpu", radeon, "gfx", 5, 4096)
	}
	busy := 0.5*over(2.5, 8.5) + over(11.2, 11.5)
	m.write("sys/devices/"+radeon+"/gpu_busy_percent", fmt.Sprintf("%d\n", int(busy*100+0.5)))
	m.write("sys/devices/"+radeon+"/mem_info_vram_used", fmt.Sprint(6<<30))
	m.write("sys/devices/"+radeon+"/hwmon/hwmon1/power1_average", fmt.Sprintf("%d\n", int((100+200*busy)*1e6)))
	switch {
	case t > 2.5 && t < 8.5:
		m.user(200, "amdgpu", radeon, "gfx", 0.5*(t-2.5), map[bool]int{false: 2048, true: 8192}[t == 6])
	case t == 9:
		m.exit(200)
	}
	switch {
	case t > 3.5 && t < 7.5:
		m.user(400, "i915", arc, "render", t-3.5, 512)
	case t == 8:
		m.exit(400)
	}
	if m.opens {
		for pid, o := range map[int32]struct {
			at   float64
			node uint32
		}{200: {3, 128}, 300: {12, 128}, 400: {4, 129}} {
			if o.at == t {
				p.Opens = append(p.Opens, sensor.Open{PID: pid, Node: sensor.Node(226, o.node)})
			}
		}
	}
	m.at++
	return nil
}

// TestFdinfo records a machine with GPUs of AMD and Intel and takes the recording through accounts, store and catalogue: who used them
// between two readings, who only held one, and how much at most between two exports.
func TestFdinfo(t *testing.T) {
	for _, opens := range []bool{false, true} {
		t.Run(fmt.Sprint("opens ", opens), func(t *testing.T) {
			m := &fdinfo{t: t, root: t.TempDir(), opens: opens}
			path := filepath.Join(t.TempDir(), "machine.rec")
			synctest.Test(t, func(t *testing.T) { m.record(t, path) })
			s := pipeline.Replay(t, path, lasts, 5)
			got := map[string]store.Workload{}
			for _, w := range s.Rows() {
				id, _, _ := strings.Cut(strings.TrimPrefix(string(w.ID), "group/n1/"), "-")
				got[id] = w
			}
			want := map[string]float64{"100": 0, "200": 3, "400": 3.5, "310": 0, "other/n1": 0.3}
			if opens {
				want["310"], want["other/n1"] = 0.3, 0
			}
			for id, seconds := range want {
				w := got[id]
				used := 0.0
				if w.GPUSeconds != nil {
					used = *w.GPUSeconds
				}
				if math.Abs(used-seconds) > 0.01*max(seconds, 1) {
					t.Errorf("%s: %v s of GPUs, want %v", id, used, seconds)
				}
			}
			value := func(p *float64) float64 {
				if p == nil {
					return 0
				}
				return *p
			}
			for id, most := range map[string]float64{"100": 4 << 30, "200": 8 << 30, "400": 512 << 20} {
				if v := value(got[id].GPUMemoryPeak); v != most {
					t.Errorf("%s: highest memory %v, want %v", id, v, most)
				}
			}
			if v := value(got["200"].GPUEnergyJoules); v != value(got["200"].EnergyJoules) {
				t.Errorf("%v J in GPUs, of %v J", v, value(got["200"].EnergyJoules))
			}
			// 200 W while it computes, 3 s; Intel's has no meter.
			for id, joules := range map[string]float64{"100": 0, "200": 600, "400": 0} {
				if v := value(got[id].EnergyJoules); math.Abs(v-joules) > 60 {
					t.Errorf("%s: energy %v J, want %v", id, v, joules)
				}
			}
		})
	}
}

func (m *fdinfo) record(t *testing.T, path string) {
	if err := m.Read(new(sensor.Pass)); err != nil {
		t.Fatal(err)
	}
	m.at = 0
	r := &recording.Recorder{Tasks: m, User: func(uint32) string { return "alice" }}
	for _, e := range all.Sensors(m.root) {
		if e.Name == "amdgpu" || e.Name == "drm" {
			s, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r.Sensors = append(r.Sensors, s)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	now := time.Now()
	w, err := recording.NewWriter(f, recording.Meta{Node: "n1", Booted: now.Add(-time.Hour), Recorded: now, Interval: 1, Source: "ebpf", Exits: "ebpf"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Record(t.Context(), w, lasts, time.Second); err != nil {
		t.Fatal(err)
	}
}
