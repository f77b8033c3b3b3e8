package account

import (
	"testing"

	"reckon/sensor"
)

// TestEndByRecord: a part ends when its last process did, where a record reports how long that lived. Elsewhere it ends when it is
// found empty, up to a tick late, and its mean is "at least" if that is more than a hundredth of its life.
func TestEndByRecord(t *testing.T) {
	const start, mark = 1000*second + second/4, "reckon_figure_exactness|cores_mean|group|seen_processes|group/n1/10|alice"
	for what, c := range map[string]struct {
		life   uint64 // of the process
		told   bool   // by its record
		ticks  int    // in which it is read
		late   bool   // its record comes in the tick after
		lasted float64
		vague  bool
	}{
		"told":              {2*second + second/10, true, 2, false, 2.1, false},
		"told late":         {2*second + second/10, true, 2, true, 2.1, false},
		"never read":        {second / 2, true, 0, false, 0.5, false},
		"not told":          {2*second + second/10, false, 2, false, 2.75, true},
		"not told, shorter": {99 * second, false, 99, false, 99.75, true},
		"not told, longer":  {100 * second, false, 100, false, 100.75, false},
		"told, long":        {100 * second, true, 100, false, 100, false},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, Config{Export: 1})
			r.boot -= second
			r.tick(0, nil)
			p := proc(10, 10, start, 2*second)
			for range c.ticks {
				r.tick(second, []sensor.Process{p})
			}
			if c.told {
				p.Life = c.life
			}
			if c.late {
				r.tick(0, nil)
			}
			r.tick(0, nil, p)
			r.tick(0, nil)
			r.export()
			of := "|group/n1/10|group||alice"
			r.want("life", r.values["reckon_workload_end_time_seconds"+of]-r.values["reckon_workload_start_time_seconds"+of], c.lasted)
			degree, marked := r.values[mark]
			if marked != c.vague || marked && degree != 1 {
				t.Errorf("the mean is marked %v with %v, want %v", marked, degree, c.vague)
			}
		})
	}
}

// TestEndWhileTheAgentWasDown: what ended then counts as ended at the first reading since, however little it used.
func TestEndWhileTheAgentWasDown(t *testing.T) {
	for _, used := range []uint64{second / 10, 5 * second} {
		r := newRig(t, Config{Export: 1})
		r.boot -= second
		r.tick(0, nil)
		p := proc(10, 10, 1000*second+second/4, used)
		for range 5 {
			r.tick(second, []sensor.Process{p})
		}
		r.export()
		r.restart()
		r.boot += 20 * second
		r.tick(second, nil)
		r.tick(second, nil)
		r.export()
		of := "|group/n1/10|group||alice"
		r.want("life", r.values["reckon_workload_end_time_seconds"+of]-r.values["reckon_workload_start_time_seconds"+of], 25.75)
		r.want("mark of the mean", r.values["reckon_figure_exactness|cores_mean|group|seen_processes|group/n1/10|alice"], 1)
	}
}
