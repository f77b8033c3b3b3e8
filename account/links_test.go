package account

import (
	"testing"

	"reckon/figure"
	"reckon/sensor"
)

// Octets of an adapter are charged where one workload alone held queue pairs at two looks, and to nobody where another, the kernel or
// somebody unknown did at either, or the counter fell; and they are kept over a restart.
func TestLinks(t *testing.T) {
	r := newRig(t, Config{})
	live := []sensor.Process{proc(10, 10, 5*second, second), proc(20, 20, 5*second, second)}
	r.tick(0, live)
	r.export()
	if d, ok := r.degrees("group")["interconnect_bytes sole_user"]; ok {
		t.Errorf("without any adapter: %s", d)
	}
	octets := uint64(1000)
	look := func(moved int64, others bool, users ...int32) {
		octets += uint64(moved)
		r.l.Links(&sensor.LinkPass{Links: []sensor.Link{{Device: "mlx5_0", Octets: [2]uint64{octets, 2 * octets}, Users: users, Others: others}}})
		r.l.Links(new(sensor.LinkPass)) // between two looks
	}
	look(0, false, 10)
	look(100, false, 10)    // charged
	look(10, false, 10, 20) // two workloads
	look(10, false, 10)     // there were two before
	look(10, true, 10)      // the kernel
	look(10, false, 10)
	look(10, false, 99) // nobody knows process 99
	look(10, false, 10)
	look(-500, false, 10) // it was cleared
	look(10, false)       // none
	look(10, false, 20)
	look(1000, false, 20) // charged
	check := func(when string, want map[string]float64) {
		t.Helper()
		r.export()
		for key, v := range want {
			if got, ok := r.values["reckon_workload_interconnect_bytes_total|"+key]; !ok || got != v {
				t.Errorf("%s: %s moved %v (%v), want %v", when, key, got, ok, v)
			}
		}
	}
	r.export()
	if d := r.degrees("group")["interconnect_bytes sole_user"]; d != figure.AtLeast {
		t.Errorf("what one workload moved is %s, want at least", d)
	}
	want := map[string]float64{
		"group/n1/10|group||alice|mlx5_0|receive": 100, "group/n1/10|group||alice|mlx5_0|transmit": 200,
		"group/n1/20|group||alice|mlx5_0|receive": 1000, "group/n1/20|group||alice|mlx5_0|transmit": 2000,
	}
	check("at first", want)
	r.restart()
	r.tick(0, live)
	look(5000, false, 20) // what was moved while nobody looked
	look(7, false, 20)
	want["group/n1/20|group||alice|mlx5_0|receive"] += 7
	want["group/n1/20|group||alice|mlx5_0|transmit"] += 14
	check("after a restart", want)
}
