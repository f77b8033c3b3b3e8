package agent

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor/host"
	"reckon/workload"
)

// machineOf starts a process that looks like the emulator of a virtual machine and keeps a
// processor busy for a while. Its name is the name of the program's file.
func machineOf(t *testing.T, name string) {
	t.Helper()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "qemu-system-x86_64")
	if err := os.WriteFile(program, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-c", "i=0; while [ $i -lt 100000000 ]; do i=$((i+1)); done", "-name", "guest="+name+",debug-threads=on")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
}

// TestGuests charges a virtual machine on a host with a meter, and has the agent in the machine
// take what the host wrote.
func TestGuests(t *testing.T) {
	dir := t.TempDir()
	h := open(t, Config{Source: "procfs", PowerModel: noModel, Guests: dir})
	u := &sensorState{name: "steady", series: metric.NewSeries(sensorUp, "steady", ""), up: true}
	h.sensors = append(h.sensors, u)
	h.meter.sources = []*sensorMeters{{unit: u, source: &steady{a: h}}}
	machineOf(t, "db-1")
	measure := func(a *Agent) {
		t.Helper()
		for range 4 {
			burn(50 * time.Millisecond)
			if err := a.tick(); err != nil {
				t.Fatal(err)
			}
		}
		a.export(time.Now())
	}
	measure(h)
	if w := ownWorkload(t, h); w.Kind() != workload.Group {
		t.Skipf("this test runs in %s, where everybody is in one workload", w)
	}
	charged, n := sum(&h.batch, "reckon_workload_energy_joules_total", "workload", "vm/db-1")
	if n == 0 || charged <= 0 {
		t.Fatalf("the machine was charged %v J in %d series", charged, n)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "db-1", host.FileName))
	if len(files) != 1 {
		t.Fatalf("files of guests: %v", files)
	}

	// The agent in the machine: what the host charges from now on is all it has.
	g := open(t, Config{Source: "procfs", HostEnergy: files[0]})
	measure(g)
	before, _ := sum(&g.batch, "reckon_node_energy_joules_total", "zone", "host")
	if math.Abs(before-charged) > 1e-9*charged {
		t.Errorf("the meter of the guest shows %v J, the host charged %v J", before, charged)
	}
	measure(h)
	now, _ := sum(&h.batch, "reckon_workload_energy_joules_total", "workload", "vm/db-1")
	measure(g)
	split, _ := sum(&g.batch, "reckon_node_attributed_energy_joules_total")
	if want := now - charged; want <= 0 || math.Abs(split-want) > 1e-9*now {
		t.Errorf("the guest split %v J, the host charged %v J meanwhile", split, want)
	}
	if _, modelled := sum(&g.batch, "reckon_workload_energy_joules_total", "method", "modelled"); modelled > 0 {
		t.Error("what the host measured is modelled in the guest")
	}
}
