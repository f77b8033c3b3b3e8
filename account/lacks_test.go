package account

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/sensor"
	"reckon/sensor/task/counters"
	"reckon/sensor/task/traffic"
)

// limited is a machine with sources that have a limit, or have not. It returns the figure that the limit is of, and the workload.
type limited func(r *rig, hit bool) (figure, id string)

// working is a process that began after the ledger, as the sources of a limit report it; more is what they report otherwise.

func working(name string, more func(p *sensor.Process)) limited {
	return func(r *rig, hit bool) (string, string) {
		p := proc(10, 10, r.boot+1, 0)
		p.Have |= sensor.FieldPeak | sensor.FieldChildren
		p.WriteBytes, p.WaitNanos, p.Anon, p.PeakBytes = 1<<30, second, mib, mib
		for range 5 {
			p.UserNanos += second / 2
			if hit {
				more(&p)
			}
			r.tick(second/2, []sensor.Process{p})
		}
		return name, "group/n1/10"
	}
}

// grouped is a job in a control group.
func grouped(name string, c sensor.Cgroup, more func(c *sensor.Cgroup, p *sensor.Process)) limited {
	return func(r *rig, hit bool) (string, string) {
		p := proc(10, 10, r.boot+1, second)
		if hit {
			more(&c, &p)
		}
		r.l.config.Identify = inJob(&fakeCgroup{c: c}, nil)
		r.tick(0, []sensor.Process{p})
		return name, "slurm/1"
	}
}

// counting is a process with a count from a source of what processes do.
func counting(name string, spec *sensor.TallySpec, pass func(start uint64, hit bool) *sensor.TallyPass) limited {
	return func(r *rig, hit bool) (string, string) {
		r.l.Tally(spec, passOf()) // it began to count before
		r.export()
		p := proc(10, 10, r.boot+1, 9*second)
		r.tick(0, []sensor.Process{p})
		r.tick(0, []sensor.Process{p})
		r.l.Tally(spec, pass(p.Start, hit))
		return name, "group/n1/10"
	}
}

// loads hit each limit of the sources. Those that are accepted (figure.Exact) need none.
func loads() map[sensor.Lack]limited {
	const needs = sensor.CgroupCPU | sensor.CgroupMemory | sensor.CgroupPeak | sensor.CgroupShmem | sensor.CgroupKernel
	group := sensor.Cgroup{Have: needs, Anon: mib, Peak: mib}
	unrecorded := func(name string, more func(r *rig, p *sensor.Process) (busy uint64)) limited {
		return func(r *rig, hit bool) (string, string) {
			r.complete(!hit)
			p := proc(10, 10, r.boot+1, 0)
			p.Have |= sensor.FieldChildren
			for range 6 {
				p.UserNanos, p.WriteBytes, p.WaitNanos = p.UserNanos+second/2, 1<<30, second
				busy := second / 2
				if hit {
					busy = more(r, &p)
				}
				r.tick(busy, []sensor.Process{p})
			}
			return name, "group/n1/10"
		}
	}
	as := func(busy uint64) func(*rig, *sensor.Process) uint64 {
		return func(*rig, *sensor.Process) uint64 { return busy }
	}
	crowd := func(measured int) limited {
		return func(r *rig, hit bool) (string, string) {
			live := forked(31, 100)
			if !hit {
				live = live[:1]
			}
			for range 13 {
				r.tick(0, live)
				for i, s := range r.l.AppendSharers(nil) {
					if i < measured || measured == 0 { // the others are not reached, or may not be read
						r.l.RecordSharing(s, sensor.SharedMemory{Resident: s.RSS, Proportional: s.RSS / 10}, measured > 0)
					}
				}
			}
			r.export() // of what was before
			r.tick(0, live)
			return "memory_bytes", "group/n1/100"
		}
	}
	return map[sensor.Lack]limited{
		sensor.LackEndedThreads:   working("cpu_wait_seconds", func(p *sensor.Process) { p.Partial = sensor.FieldWait }),
		sensor.LackEndedProcesses: unrecorded("io_write_bytes", as(second/2)),
		sensor.LackLastMoments: func(r *rig, hit bool) (string, string) {
			if hit {
				r.pass.Lacks = append(r.pass.Lacks, sensor.LackLastMoments)
			}
			return working("io_write_bytes", nil)(r, false)
		},
		sensor.LackChildTimes: unrecorded("cpu_seconds", func(_ *rig, p *sensor.Process) uint64 {
			p.Have &^= sensor.FieldChildren
			return second / 2
		}),
		sensor.LackOrphans: unrecorded("cpu_seconds", as(second/2+second/10)),
		sensor.LackLate:    unrecorded("cpu_seconds", as(second/2-second/10)),
		sensor.LackUnread: unrecorded("cpu_wait_seconds", func(_ *rig, p *sensor.Process) uint64 {
			p.ChildUserNanos += second / 4
			return second/2 + second/4
		}),
		sensor.LackHistory: func(r *rig, hit bool) (string, string) {
			if hit {
				*r = *newRig(r.t, Config{})
			}
			p := proc(10, 10, 5*second, 9*second)
			r.complete(true)
			r.tick(0, []sensor.Process{p})
			return "cpu_seconds", "group/n1/10"
		},
		sensor.LackEnd: func(r *rig, hit bool) (string, string) {
			r.l.config.Linger = time.Hour
			p := proc(10, 10, r.boot+1, 2*second)
			r.tick(0, []sensor.Process{p})
			if p.Life = second; hit {
				p.Life = 0
			}
			r.tick(0, nil, p)
			r.tick(0, nil)
			return "cores_mean", "group/n1/10"
		},
		sensor.LackQuiet: func(r *rig, hit bool) (string, string) {
			p := proc(10, 10, r.boot+1, second/2)
			p.WaitNanos = 8 * second
			if !hit {
				p.UserNanos = 2 * second
			}
			r.tick(0, []sensor.Process{p})
			r.export()
			p.UserNanos, p.WaitNanos = p.UserNanos+2*second, p.WaitNanos+second
			r.tick(0, []sensor.Process{p})
			return "cpu_wait_seconds", "group/n1/10"
		},
		sensor.LackTogether: func(r *rig, hit bool) (string, string) {
			r.l.config.Export = 15 * time.Second
			p := proc(10, 10, r.boot+1, second/100)
			p.Have, p.PeakBytes, p.Anon = p.Have|sensor.FieldPeak, mib, mib
			if !hit {
				p.UserNanos = 2 * second
				r.tick(0, []sensor.Process{p})
				return "memory_peak_bytes", "group/n1/10"
			}
			r.tick(0, []sensor.Process{p})
			r.tick(0, nil, p)
			r.tick(0, nil)
			return "memory_peak_bytes", "short/alice/n1"
		},
		sensor.LackReached: working("io_write_bytes", func(p *sensor.Process) { p.CancelledBytes = 1 << 29 }),
		sensor.LackReachedSome: unrecorded("io_write_bytes", func(_ *rig, p *sensor.Process) uint64 {
			p.CancelledBytes = 1 << 29
			return second / 2
		}),
		sensor.LackHuge:        grouped("memory_bytes", group, func(_ *sensor.Cgroup, p *sensor.Process) { p.Huge = mib }),
		sensor.LackSharedPages: crowd(0),
		sensor.LackScaled:      crowd(1),
		sensor.LackShmem:       grouped("memory_needed_bytes", group, func(c *sensor.Cgroup, _ *sensor.Process) { c.Have &^= sensor.CgroupShmem }),
		sensor.LackUnmapped: func(r *rig, hit bool) (string, string) { // a file of memory that was there before is not its own
			r.m.MemoryTotal, r.m.MemoryAvailable, r.m.MemoryShared = 24<<30, 21<<30, 500*mib
			r.tick(0, nil)
			p := proc(10, 10, r.boot+1, second)
			p.Anon = 2 * mib
			r.tick(0, []sensor.Process{p})
			if hit {
				r.m.MemoryShared += 100 * mib
			} else { // it maps what it has
				r.m.MemoryShared, p.Shmem = r.m.MemoryShared+100*mib, 100*mib
			}
			r.tick(0, []sensor.Process{p})
			r.tick(0, []sensor.Process{p})
			return "memory_bytes", "group/n1/10"
		},
		sensor.LackReclaimable: grouped("memory_needed_bytes", group, func(c *sensor.Cgroup, _ *sensor.Process) {
			c.Have, c.Kernel, c.MemoryMax = c.Have|sensor.CgroupKernelBound|sensor.CgroupMemoryMax, 50*mib, 200*mib
		}),
		sensor.LackBuffered: grouped("io_write_bytes", sensor.Cgroup{Have: needs | sensor.CgroupIO, WriteBytes: 1 << 30},
			func(c *sensor.Cgroup, p *sensor.Process) {
				p.Have &^= sensor.FieldIO
				c.Have |= sensor.CgroupKernelBound
			}),
		sensor.LackSpliced: counting("network_bytes", traffic.Spec, func(start uint64, hit bool) *sensor.TallyPass {
			p := passOf(sent(10, start, 100))
			if hit {
				p.Lacks = append(p.Lacks, sensor.LackSpliced)
			}
			return p
		}),
		sensor.LackRoom: counting("network_bytes", traffic.Spec, func(start uint64, hit bool) *sensor.TallyPass {
			if hit {
				return unowned(sent(0, 0, 100))
			}
			return passOf(sent(10, start, 100))
		}),
		sensor.LackWrittenBack: counting("memory_traffic_bytes", counters.Spec, func(start uint64, hit bool) *sensor.TallyPass {
			if !hit {
				return passOf()
			}
			return counted(10, start, map[counters.Counter]uint64{counters.CacheMisses: 1000})
		}),
		sensor.LackTurns: counting("instructions", counters.Spec, func(start uint64, hit bool) *sensor.TallyPass {
			p := counted(10, start, map[counters.Counter]uint64{counters.Instructions: 1000})
			if hit {
				p.Rows[0].Enabled, p.Rows[0].Running = 20, 10
			}
			return p
		}),
		sensor.LackShared: func(r *rig, hit bool) (string, string) {
			live := []sensor.Process{proc(10, 10, r.boot+1, 9*second)}
			r.tick(0, live)
			if hit { // the source is there
				for i := range uint64(2) {
					r.l.Links(&sensor.LinkPass{Links: []sensor.Link{{Device: "mlx5_0", Octets: [2]uint64{1000 + i*100, 1000}, Users: []int32{10}}}})
				}
			}
			return "interconnect_bytes", "group/n1/10"
		},
		sensor.LackMeter: func(r *rig, hit bool) (string, string) {
			p := proc(10, 10, r.boot+1, 0)
			for i := range 3 {
				p.UserNanos += second
				r.tick(second, []sensor.Process{p})
				source := rapl(float64(100 * (i + 1)))
				source.Model = hit
				r.energy(1, nil, source)
			}
			return "energy_joules", "group/n1/10"
		},
		sensor.LackSplit: func(r *rig, hit bool) (string, string) {
			live := []sensor.Process{proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)}
			uses := []sensor.GPUUse{{PID: 10, Have: both, Busy: 0.5}, {PID: 20, Have: both, Busy: 0.3}}
			if hit {
				uses = []sensor.GPUUse{{PID: 10, Have: sensor.GPUMemory, Memory: 3}, {PID: 20, Have: sensor.GPUMemory, Memory: 1}}
			}
			for i := range uses {
				uses[i].Device = "g"
			}
			for range 3 {
				r.tick(0, live)
				r.gpu([]sensor.GPU{gpuOf("g", 0.8)}, uses...)
			}
			return "gpu_seconds", "group/n1/10"
		},
	}
}

// elsewhere are tests that hold the mark of a limit under a load which takes more than a few lines.
var elsewhere = map[sensor.Lack]string{sensor.LackWhose: "TestTwoEndAtOnce"}

// TestLacks walks what sources lack: each limit has a load that hits it, and the figure has the mark then and is exact without.
func TestLacks(t *testing.T) {
	all := loads()
	for l := sensor.LackNothing + 1; int(l) < sensor.Lacks; l++ {
		load := all[l]
		if l.Exactness() == figure.Exact {
			continue
		}
		if load == nil {
			if name := elsewhere[l]; name == "" || !strings.Contains(testNames(t), "func "+name+"(") {
				t.Errorf("limit %d has no load that hits it", l)
			}
			continue
		}
		for _, hit := range []bool{false, true} {
			r := newRig(t, Config{Export: 5 * time.Second})
			r.complete(true)
			r.tick(0, nil)
			r.export()
			name, id := load(r, hit)
			r.export()
			got := r.worst(name, id)
			if !hit && got != figure.Exact {
				t.Errorf("limit %d: without it %s of %s is %v", l, name, id, got)
			}
			if hit && got != l.Exactness() {
				t.Errorf("limit %d: %s of %s is %v, want %v", l, name, id, got, l.Exactness())
			}
		}
	}
}

// testNames returns the tests of the package as "func NAME(" in one text.
func testNames(t *testing.T) string {
	var all strings.Builder
	each(t, "*_test.go", func(_ string, n ast.Node) {
		if f, ok := n.(*ast.FuncDecl); ok {
			all.WriteString("func " + f.Name.Name + "(\n")
		}
	})
	return all.String()
}

// TestNoOtherRules holds that nothing but what a source lacks makes a figure of this package less than exact.
func TestNoOtherRules(t *testing.T) {
	compared := map[ast.Node]bool{}
	check := func(file string, n ast.Node) {
		if b, ok := n.(*ast.BinaryExpr); ok {
			compared[b.X], compared[b.Y] = true, true
		}
		s, ok := n.(*ast.SelectorExpr)
		if !ok || compared[n] || strings.HasSuffix(file, "_test.go") {
			return
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "figure" {
			switch s.Sel.Name {
			case "AtLeast", "AtMost", "Estimated", "Modelled":
				t.Errorf("%s: figure.%s: name what the source lacks (sensor.Lack)", file, s.Sel.Name)
			}
		}
	}
	each(t, "*.go", check)
	each(t, "*/*.go", check)
}

// each calls f for all nodes of files.
func each(t *testing.T, pattern string, f func(file string, n ast.Node)) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v (%v)", pattern, names, err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool { f(name, n); return true })
	}
}
