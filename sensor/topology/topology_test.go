package topology

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// tree creates a constructed machine: the package and the frequency of each processor, 0
// for none, one policy for each frequency.
func tree(t testing.TB, packages []int, freq []int) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	by := map[int][]string{}
	for cpu, p := range packages {
		write(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu), fmt.Sprintln(p))
		if freq != nil {
			by[freq[cpu]] = append(by[freq[cpu]], fmt.Sprint(cpu))
		}
	}
	for f, cpus := range by {
		dir := "sys/devices/system/cpu/cpufreq/policy" + cpus[0]
		write(dir+"/related_cpus", strings.Join(cpus, " ")+"\n")
		write(dir+"/scaling_cur_freq", fmt.Sprintln(f))
	}
	write("proc/stat", stat(packages, 100, 50))
	return root
}

func stat(packages []int, user, idle int) string {
	s := "cpu  1 2 3 4 5 6 7 8 9 10\n"
	for cpu := range packages {
		s += fmt.Sprintf("cpu%d %d 1 2 %d 9 3 4 7 5 0\n", cpu, user*(cpu+1), idle)
	}
	return s + "intr 1 2 3\nctxt 7\n"
}

func TestPackages(t *testing.T) {
	root := tree(t, []int{0, 0, 1, 1}, nil)
	r, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b := r.Busy(); b != nil {
		t.Errorf("the first reading is %v, want nothing", b)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/stat"), []byte(stat([]int{0, 0, 1, 1}, 200, 900)), 0o644); err != nil {
		t.Fatal(err)
	}
	if b := r.Busy(); len(b) != 2 || b[0] != 3 || b[1] != 7 {
		t.Errorf("busy %v s, want 3 and 7", b)
	}
	for _, c := range []struct {
		cpus []int
		want uint64
	}{{[]int{0}, 1}, {[]int{2, 3}, 2}, {[]int{1, 2}, 0}, {[]int{0, 1, 2, 3}, 0}} {
		var set unix.CPUSet
		for _, cpu := range c.cpus {
			set.Set(cpu)
		}
		if got, _ := r.packagesOf(&set); got != c.want {
			t.Errorf("processors %v: packages %b, want %b", c.cpus, got, c.want)
		}
	}
	if n := testing.AllocsPerRun(20, func() { r.Busy(); r.Clocks(); r.Place(0) }); n != 0 {
		t.Errorf("a reading allocates %v times", n)
	}
}

func TestClocks(t *testing.T) {
	r, err := Open(tree(t, []int{0, 0, 0, 0}, []int{1_000_000, 1_000_000, 3_000_000, 3_000_000}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Clocks()
	var little, big unix.CPUSet
	little.Set(0)
	big.Set(3)
	if _, c := r.packagesOf(&little); c != 0.5 {
		t.Errorf("little cores run at %v of the mean, want 0.5", c)
	}
	if _, c := r.packagesOf(&big); c != 1.5 {
		t.Errorf("big cores run at %v of the mean, want 1.5", c)
	}
	if r.Busy() != nil {
		t.Error("busy time of one package is reported")
	}
}

func TestNotHere(t *testing.T) {
	for name, root := range map[string]string{"nothing": t.TempDir(), "one package": tree(t, []int{0, 0}, nil)} {
		if _, err := Open(root); !errors.Is(err, sensor.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("cpu3 1 2 3 4 5 6 7 8 9 10"))
	f.Add([]byte("cpu  1 2 3"))
	f.Add([]byte("cpu1 99999999999999999999 1 1 1 1 1 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if cpu, _, ok := parseCPULine(b); ok && (cpu < 0 || cpu > 1<<16) {
			t.Fatalf("%q: processor %d", b, cpu)
		}
	})
}
