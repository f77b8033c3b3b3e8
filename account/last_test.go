package account

import (
	"slices"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// TestLastSamples: every series of a workload that ended is exported until it has lingered, without a mark before, all of them with the mark
// of a last sample then, and none afterwards. A workload that goes on has no such mark.
func TestLastSamples(t *testing.T) {
	const gone, goesOn = "group/n1/20", "group/n1/10"
	for name, c := range map[string]struct {
		linger time.Duration
		shown  int // exports without the mark between the end and the last sample
	}{
		"at once":         {0, 0},
		"a moment":        {time.Nanosecond, 0}, // the first export comes later than that
		"to the instant":  {3 * time.Second, 2}, // an export comes exactly then
		"past an instant": {3*time.Second + 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Export: time.Second, Linger: c.linger})
			a, b := proc(10, 10, 5*second, 2*second), proc(20, 20, r.boot+second/2, 2*second)
			r.tick(0, []sensor.Process{a})
			r.tick(2*second, []sensor.Process{a, b})
			r.tick(0, []sensor.Process{a, b})
			export := func() (shown, last, kinds int) {
				var batch metric.Batch
				batch.Reset(wall)
				r.l.Export(&batch)
				seen := map[string]bool{}
				for _, s := range batch.Samples {
					switch {
					case s.Ended():
					case slices.Contains(s.Series.Values, goesOn) && s.Last:
						t.Errorf("%s of a workload that goes on is the last sample", s.Series.Desc.Name)
					case slices.Contains(s.Series.Values, gone) && s.Last:
						last, seen[s.Series.Desc.Name] = last+1, true
					case slices.Contains(s.Series.Values, gone):
						shown, seen[s.Series.Desc.Name] = shown+1, true
					}
				}
				return shown, last, len(seen)
			}
			if shown, last, _ := export(); shown == 0 || last != 0 {
				t.Errorf("while it runs: %d samples, and %d last ones", shown, last)
			}
			r.tick(0, []sensor.Process{a}) // found empty, which counts as its end
			ended := r.boot
			r.tick(0, []sensor.Process{a})
			if p := r.l.parts.byKey[partKey{id: gone, owner: "alice"}]; p == nil || p.end != ended {
				t.Fatalf("it ends at %d, want %d", p.end, ended)
			}
			for i := range c.shown {
				if shown, last, _ := export(); shown == 0 || last != 0 {
					t.Errorf("export %d after its end: %d samples, and %d last ones", i+1, shown, last)
				}
				r.tick(0, []sensor.Process{a})
			}
			shown, last, kinds := export()
			if shown != 0 || last < 10 || kinds < 10 {
				t.Errorf("the last export: %d samples, and %d last ones of %d names", shown, last, kinds)
			}
			if r.l.parts.byKey[partKey{id: gone, owner: "alice"}] == nil {
				t.Error("it is forgotten before its last export can be saved")
			}
			for range 2 {
				r.tick(0, []sensor.Process{a})
				if r.l.parts.byKey[partKey{id: gone, owner: "alice"}] != nil {
					t.Error("it is kept after the next tick")
				}
				if shown, last, _ := export(); shown+last != 0 {
					t.Errorf("after its last export: %d samples", shown+last)
				}
			}
		})
	}
}

// TestLastSamplesOfAReportedContainer: what was measured of a container that ended has its last sample while the supervisor still reports the
// container; the report goes on without that mark.
func TestLastSamplesOfAReportedContainer(t *testing.T) {
	r, c, running := pods(t, 1, false, workload.Amounts{})
	r.tick(0, running(0))
	r.export()
	f := c.reports["a/c"]
	f.Ended, f.EndedID, f.ExitCode, f.Reason = true, f.ID, 3, "Error"
	c.containers[10].removed = true
	measured := false
	for range 20 {
		r.tick(0, running(0)[1:])
		var b metric.Batch
		b.Reset(wall)
		r.l.Export(&b)
		for _, s := range b.Samples {
			if !slices.Contains(s.Series.Values, "cart-a/app") {
				continue
			}
			if isReport(s.Series.Desc) && s.Last {
				t.Fatalf("%s of a container that is still reported is the last sample", s.Series.Desc.Name)
			}
			measured = measured || s.Last && s.Series.Desc == cpuSeconds
		}
	}
	if !measured {
		t.Error("its CPU time has no last sample")
	}
}

// TestGraces: the ends of the times for which an ended part waits belong to what comes after them.
func TestGraces(t *testing.T) {
	p := &Part{partNames: partNames{place: "a/c"}, container: &container{facts: new(workload.ContainerFacts)}, end: 100 * second}
	for at, want := range map[uint64]bool{p.end + nameGrace - 1: false, p.end + nameGrace: true} {
		if p.isEndReported(at) != want {
			t.Errorf("%d ns after its end a container without a report of that is settled: %v", at-p.end, !want)
		}
	}
	for after, want := range map[uint64]bool{maxEmptyTime - 1: false, maxEmptyTime: true} {
		r := newRig(t, Config{})
		q := &Part{cgroup: new(box), emptySince: 100 * second}
		r.l.endIfEmpty(q, q.emptySince+after)
		if ended := q.end != 0; ended != want {
			t.Errorf("%d ns after its last process a part with a control group ended: %v", after, ended)
		}
	}
}
