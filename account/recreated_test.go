package account

import (
	"testing"

	"reckon/metric"
	"reckon/sensor"
)

// TestRecreatedWhileWaiting: a pod is recreated under its name while its first life lingers, and waits for that name. Its counters begin after
// the last export of the first life, since the store takes no zero between samples.
func TestRecreatedWhileWaiting(t *testing.T) {
	const id, part = "statefulset/shop/db", "db-0/db"
	old := &box{uid: "u1", id: "c1", workload: id, part: part}
	c := &cluster{containers: map[int32]*box{1: old}}
	r := c.rig(t, Config{Linger: 10e9})
	created := func() (at, now int64) {
		var b metric.Batch
		b.Reset(wall)
		r.l.Export(&b)
		for _, s := range b.Samples {
			if s.Series.Desc.Name == "reckon_workload_cpu_seconds_total" && s.Series.Values[0] == id && s.Series.Values[2] == part && !s.Last {
				at = s.Series.Created
			}
		}
		return at, r.l.at.unixMillis()
	}
	r.tick(0, nil)
	old.use(second / 5)
	r.tick(second, []sensor.Process{in(1, 1, r.boot+1, second/5)})
	first, _ := created()
	old.removed = true
	r.tick(second, nil, in(1, 1, 1001*second, second/5))
	born := r.boot + second/2
	c.containers[2] = &box{uid: "u2", id: "c2", workload: id, part: part}
	c.away = true // its name comes late
	c.containers[2].use(second * 3 / 10)
	var last int64 // export of the first life
	for range 2 {
		r.tick(second, []sensor.Process{in(2, 2, born, second*3/10)})
		if at, now := created(); at == first && at != 0 {
			last = now
		}
	}
	c.away = false
	for range 30 {
		r.tick(second, []sensor.Process{in(2, 2, born, second*3/10)})
		at, now := created()
		if at == first {
			last = now
		} else if at != 0 {
			if last == 0 || at <= last+1 || at >= now {
				t.Errorf("counters of the second life begin at %d, the last export of the first was at %d, this one is at %d", at, last, now)
			}
			return
		}
	}
	t.Error("the second life was not exported")
}
