package run

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// BenchmarkLook is one look at a tree of idle processes, as it happens 10 to 50 times a
// second: with events that show who lives, and by the lists of children.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{1, 100} {
		children := make([]*exec.Cmd, n)
		for i := range children {
			children[i] = exec.Command("sleep", "600")
			if err := children[i].Start(); err != nil {
				b.Fatal(err)
			}
		}
		for _, events := range []bool{true, false} {
			b.Run(fmt.Sprintf("processes=%d/events=%v", n, events), func(b *testing.B) {
				t := sleepers(children, events)
				b.ReportAllocs()
				for b.Loop() {
					if l := t.findLive(0); l.procs < n {
						b.Fatalf("%d processes seen of %d", l.procs, n)
					}
				}
			})
		}
		for _, c := range children {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
}

// sleepers returns a tree that knows the children, warmed up.
func sleepers(children []*exec.Cmd, events bool) *tree {
	t := newTree(os.Getpid(), "/proc")
	t.byEvents = events
	if events {
		for _, c := range children {
			t.addProcess(int32(c.Process.Pid), t.self)
		}
	}
	for range 3 {
		t.findLive(0)
	}
	return t
}

// BenchmarkStudy is the reading of times, I/O and waiting, at most once in 100 ms.
func BenchmarkStudy(b *testing.B) {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	t := sleepers([]*exec.Cmd{c}, true)
	b.ReportAllocs()
	for b.Loop() {
		t.readDetails()
	}
}

// BenchmarkRun is a whole run of a command that does nothing, beside the same without us.
func BenchmarkRun(b *testing.B) {
	for _, v := range []struct {
		name string
		o    Options
	}{{"all", Options{}}, {"no cgroup", Options{NoCgroup: true}}, {"procfs", Options{NoCgroup: true, NoPerf: true}}} {
		b.Run(v.name, func(b *testing.B) {
			v.o.Args = []string{"true"}
			for b.Loop() {
				if _, err := Run(v.o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A look that finds nothing new does not allocate.
func TestLookDoesNotAllocate(t *testing.T) {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	tree := sleepers([]*exec.Cmd{c}, true)
	n := 1.0
	for tries := 0; n != 0 && tries < 100; tries++ { // on a busy machine the child still begins
		n = testing.AllocsPerRun(100, func() { tree.findLive(0) })
	}
	if n != 0 {
		t.Errorf("%.1f allocations for a look, want 0", n)
	}
}
