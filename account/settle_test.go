package account

import (
	"testing"
	"time"

	"reckon/sensor"
)

// TestSlowReadings: where the machine is read some time after its processes, as many want the processors, what they used in between is
// not charged to other, and then to them as well.
func TestSlowReadings(t *testing.T) {
	for _, busy := range []uint64{4, 3} { // processors; the processes use 3
		r := newRig(t, Config{})
		live := []sensor.Process{proc(100, 100, 5*second, 0), proc(101, 100, 5*second, 0), proc(102, 100, 5*second, 0)}
		used := uint64(0)
		tick := func(lag uint64) { // so long after the processes the machine is read
			next := max(r.boot+second, r.m.Boot)
			for i := range live {
				live[i].UserNanos += next - r.boot
			}
			span := next + lag - r.m.Boot
			r.m.Boot, r.m.User, r.m.Idle = next+lag, r.m.User+busy*span, r.m.Idle+(4-busy)*span
			used += busy * (next - r.boot)
			r.boot = next
			r.pass.Boot, r.pass.Live = next, live
			r.l.Tick(wall.Add(time.Duration(next)), &r.pass, &r.m)
		}
		r.m.Boot = r.boot
		tick(0)
		began := r.l.Total() - used
		for _, lag := range []uint64{0, second / 10, 0, second / 2, second / 10, 3 * second, 2 * second, second, second / 3, 0} {
			tick(lag)
		}
		r.export()
		r.want("group", r.cpu("group/n1/100", "", "alice"), float64(3*used/busy)/1e9)
		if got := r.l.Total() - began; got < used-second/100 || got > used+second/100 {
			t.Errorf("of %d processors: %.3f s are charged, %.3f were used", busy, float64(got)/1e9, float64(used)/1e9)
		}
	}
}
