package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"reckon/sensor"
	"reckon/sensor/all"
)

// A module that is loaded after the agent started is found, and read like one that was here.
func TestRediscover(t *testing.T) {
	a, _, err := Open(Config{Source: "procfs", Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	root := t.TempDir()
	var missing []all.Entry
	for _, e := range all.Sensors(root) {
		if e.Name != "rapl" && e.Name != "nvml" {
			continue
		}
		_, err := e.Open()
		if !mayAppear(e, err) {
			t.Fatalf("%s on an empty machine: %v", e.Name, err)
		}
		missing = append(missing, e)
	}
	for _, u := range a.sensors {
		if u.name == "rapl" && u.sensor != nil {
			t.Skip("this machine has RAPL")
		}
	}
	before := len(a.meter.sources)
	synctest.Test(t, func(t *testing.T) {
		asks := make(chan func())
		a.asks = asks
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.rediscover(ctx, missing)
		<-time.After(minRetryPause + time.Second)
		synctest.Wait()
		dir := filepath.Join(root, "sys/class/powercap/intel-rapl:0")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"name": "package-0", "energy_uj": "1000000", "max_energy_range_uj": "262143328850"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case ask := <-asks:
			ask()
		case <-time.After(2*minRetryPause + time.Second):
			t.Error("not found a minute after it came")
		}
	})
	if len(a.meter.sources) != before+1 {
		t.Fatalf("%d sources of meters, want one more than %d", len(a.meter.sources), before)
	}
	r := a.meter.sources[before]
	m, err := r.source.ReadMeters(nil)
	if err != nil || len(m) != 1 || m[0].Domain != sensor.DomainPackage || !r.unit.up || r.unit.reason != "" || r.unit.sensor == nil {
		t.Errorf("meters %v, %v; unit %+v", m, err, r.unit)
	}
}

// What is broken or wrongly configured is no sensor that may appear.
func TestLate(t *testing.T) {
	for _, c := range []struct {
		entry all.Entry
		err   error
		want  bool
	}{
		{all.Entry{Hotplug: true}, sensor.Unavailable("no driver", "", nil), true},
		{all.Entry{Hotplug: true}, os.ErrPermission, false},
		{all.Entry{Hotplug: true}, nil, false},
		{all.Entry{}, sensor.Unavailable("nothing configured", "", nil), false},
	} {
		if got := mayAppear(c.entry, c.err); got != c.want {
			t.Errorf("%+v, %v: %v", c.entry, c.err, got)
		}
	}
}
