package query

import (
	"math"
	"testing"
	"time"

	"reckon/store/storetest"
)

// TestCongestion: which device of which node was full, for how long, and how much of it was the workload's.
func TestCongestion(t *testing.T) {
	const speed, every = 1e9, 15 * time.Second
	w := newWriter(t)
	to := storetest.Now().Truncate(time.Minute)
	from := to.Add(-20 * time.Minute)
	type device struct {
		name        string
		speed, rate float64
	}
	// Each job has a node of its own; its devices move their rate in the first half of its time, and a tenth of it afterwards.
	cases := map[string]struct {
		own     float64 // of the workload, elsewhere
		host    float64
		devices []device
		want    float64 // own rate through the device that was full
	}{
		"alone":           {0.9e9, 0, []device{{"eth0", speed, 0.95e9}}, 0.9e9},
		"not-full":        {0.8e9, 0, []device{{"eth0", speed, 0.89e9}}, 0},
		"another":         {0.3e9, 0, []device{{"eth0", speed, 0.95e9}, {"eth1", speed, 0.1e9}}, 0.2e9},
		"by-another":      {0.3e9, 0, []device{{"eth0", speed, 0.95e9}, {"eth1", 0, 0.4e9}}, 0}, // eth1 can have carried all of it
		"bond":            {0.9e9, 0, []device{{"eth0", speed, 0.95e9}, {"bond0", speed, 0.95e9}, {"eth0.7", 0, 0.95e9}, {"br0", 0, 0.9e9}, {"veth1", 0, 0.9e9}}, 0.9e9},
		"speed-not-known": {0.9e9, 0, []device{{"eth0", 0, 0.95e9}}, 0},
		"speed-a-name":    {0.9e9, 0, []device{{"eth0", speed, 1.06e9}}, 0},
		"on-the-host":     {0, 0.9e9, []device{{"eth0", speed, 0.95e9}}, 0},
		"at-the-edge":     {0.095e9, 0, []device{{"eth0", speed, 0.95e9}}, 0.095e9},
		"below-the-edge":  {0.094e9, 0, []device{{"eth0", speed, 0.95e9}}, 0},
	}
	for at, moved := from, 0.0; !at.After(to); at = at.Add(every) {
		for name, c := range cases {
			id := []string{"workload", "slurm/" + name, "kind", "slurm", "part", "0", "owner", "ada"}
			if at.Equal(from) {
				w.put(at, name, "reckon_workload_start_time_seconds", float64(from.UnixMilli())/1000, id...)
			}
			w.put(at, name, "reckon_workload_cpu_seconds_total", at.Sub(from).Seconds()/4, append(id, "mode", "user")...)
			w.put(at, name, "reckon_workload_network_bytes_total", moved*c.own, append(id, "direction", "receive", "protocol", "tcp", "scope", "elsewhere")...)
			w.put(at, name, "reckon_workload_network_bytes_total", moved*c.host, append(id, "direction", "receive", "protocol", "tcp", "scope", "host")...)
			for _, d := range c.devices {
				w.put(at, name, "node_network_receive_bytes_total", 1e15+moved*d.rate, "device", d.name)
				w.put(at, name, "node_network_transmit_bytes_total", moved*d.rate/100, "device", d.name)
				if d.speed > 0 {
					w.put(at, name, "node_network_speed_bytes", d.speed, "device", d.name)
				}
			}
		}
		if at.Sub(from) < 10*time.Minute {
			moved += every.Seconds()
		} else {
			moved += every.Seconds() / 10
		}
	}
	v := New(w.s, Options{})
	for name, c := range cases {
		got, err := v.Congestion(t.Context(), Selection{ID: "slurm/" + name, From: from, To: to})
		if err != nil || (got == nil) != (c.want == 0) {
			t.Errorf("%s: %+v, %v, want %v", name, got, err, c.want)
			continue
		}
		if got == nil {
			continue
		}
		near(t, name+" seconds", &got.Seconds, 600)
		near(t, name+" observed", &got.Observed, 1200)
		near(t, name+" cores", &got.Cores, 0.25)
		if got.Node != name || got.Device != "eth0" || got.Direction != "receive" || got.Speed != speed || math.Abs(got.Own-c.want) > 1 || math.Abs(got.Rate-0.95e9) > 1 {
			t.Errorf("%s: %+v, want %v of its own", name, got, c.want)
		}
	}
	got, err := v.Congestion(t.Context(), Selection{ID: "slurm/alone", From: to.Add(-48 * time.Hour), To: to})
	if err != nil || got == nil || got.Observed != 86400 || got.Seconds < 500 || got.Seconds > 660 {
		t.Errorf("of two days: %+v, %v", got, err)
	}
	if got, err := v.Congestion(t.Context(), Selection{ID: "slurm/alone", From: to, To: to}); got != nil || err != nil {
		t.Errorf("of no time: %+v, %v", got, err)
	}
}
