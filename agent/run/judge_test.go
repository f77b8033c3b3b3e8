package run

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	mem := func(v uint64) *uint64 { return &v }
	sec := func(v float64) *float64 { return &v }
	base := func() *Report {
		return &Report{WallSeconds: 100, CPU: CPU{User: 90, System: 10, Total: 100}, Cores: Cores{1, 1, 1, 1}, CPUWaitSeconds: sec(0),
			MemoryPeakBytes: mem(1 << 30), MemoryMeanBytes: mem(1 << 30), Processes: 3, ProcessesExact: true, ProcessesPeak: 2,
			Machine: Machine{Cores: 8, MemoryBytes: 16 << 30}}
	}
	for _, c := range []struct {
		name, resource, level, text string
		change                      func(*Report)
	}{
		{"one core", "cpu", levelNotice, "more will not help unless", func(*Report) {}},
		{"all cores", "cpu", levelOK, "more cores may help", func(r *Report) { r.Cores = Cores{7.8, 7.9, 8, 8}; r.CPU.Total = 780 }},
		{"idle", "cpu", levelNotice, "hardly computed", func(r *Report) { r.Cores = Cores{0.01, 0, 0.1, 0.2}; r.CPU.Total = 1 }},
		{"uneven", "cpu", levelNotice, "a parallel part", func(r *Report) { r.Cores = Cores{1.5, 1, 6, 8}; r.CPU.Total = 150 }},
		{"even", "cpu", levelOK, "half of the time at most", func(r *Report) { r.Cores = Cores{3, 3, 4, 5}; r.CPU.Total = 300 }},
		{"one core machine", "cpu", levelOK, "kept everything it was given busy", func(r *Report) { r.Machine.Cores = 1 }},
		{"short", "cpu", levelOK, "too short", func(r *Report) { r.WallSeconds = 0.05 }},
		{"no wait", "wait", levelOK, "no shortage", func(*Report) {}},
		{"wait unknown", "wait", levelOK, "could not be measured", func(r *Report) { r.CPUWaitSeconds = nil }},
		{"some wait", "wait", levelNotice, "now and then", func(r *Report) { r.CPUWaitSeconds = sec(10) }},
		{"hardly ran, hardly waited", "wait", levelOK, "no shortage", func(r *Report) { r.CPUWaitSeconds = sec(0.3); r.CPU.Total = 0.1 }},
		{"overbooked", "wait", levelWarning, "overbooked", func(r *Report) { r.CPUWaitSeconds = sec(60) }},
		{"too many threads", "wait", levelWarning, "more runnable threads than", func(r *Report) { r.CPUWaitSeconds = sec(800); r.Cores.Mean = 8; r.CPU.Total = 800 }},
		{"fine", "memory", levelOK, "fine", func(*Report) {}},
		{"unknown", "memory", levelOK, "could not be measured", func(r *Report) { r.MemoryPeakBytes = nil }},
		{"near limit", "memory", levelNotice, "of its limit", func(r *Report) { r.MemoryPeakBytes = mem(14 << 30); r.Machine.MemoryLimited = true }},
		{"at limit", "memory", levelWarning, "may be killed", func(r *Report) { r.MemoryPeakBytes = mem(16 << 30) }},
		{"thrashing", "memory", levelWarning, "page faults a second", func(r *Report) { r.Faults.Major = 50_000 }},
		{"peaked", "memory", levelNotice, "a short peak decides", func(r *Report) { r.MemoryMeanBytes = mem(100 << 20) }},
		{"nothing", "io", levelOK, "nothing was read", func(*Report) {}},
		{"cached", "io", levelOK, "no storage was touched", func(r *Report) { r.IOCalls = &IO{5 << 20, 0} }},
		{"little", "io", levelOK, "little", func(r *Report) { r.IO = IO{1 << 20, 0} }},
		{"io bound", "io", levelNotice, "storage may be what it waits for", func(r *Report) { r.IO = IO{10 << 30, 0}; r.Cores.Mean = 0.1 }},
		{"few", "processes", levelOK, "started 3 processes", func(*Report) {}},
		{"one", "processes", levelOK, "started 1 process,", func(r *Report) { r.Processes = 1 }},
		{"minimum", "processes", levelOK, "at least 3", func(r *Report) { r.ProcessesExact = false }},
		{"storm", "processes", levelNotice, "fewer, longer ones", func(r *Report) { r.Processes = 20_000; r.CPU.System = 50 }},
		{"kernel", "processes", levelNotice, "spent in the kernel", func(r *Report) { r.CPU.System = 50 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := base()
			c.change(r)
			for _, v := range Judge(r) {
				if v.Resource == c.resource {
					if v.Level != c.level || !strings.Contains(v.Text, c.text) || !strings.HasSuffix(v.Text, ".") {
						t.Errorf("%s: %q, want %s with %q", v.Level, v.Text, c.level, c.text)
					}
					return
				}
			}
			t.Errorf("no verdict on %s", c.resource)
		})
	}
}
