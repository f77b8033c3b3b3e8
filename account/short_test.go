package account

import (
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/sensor"
)

// TestQuietGroupIsShortWork: a group that ended within twelve exports, at most a minute or else one export, is folded if it did next
// to nothing, and one that ended within one export if it used less than a second; any other has series of its own.
func TestQuietGroupIsShortWork(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		export       time.Duration
		life         uint64 // seconds
		cpu          uint64 // nanoseconds, at the end
		peak         uint64
		written      uint64
		early, shows bool // it has series before its end, and at all
	}{
		"within an export":                   {export: 15 * time.Second, life: 12, cpu: second / 100},
		"within a minute":                    {export: 15 * time.Second, life: 59, cpu: second / 100},
		"beyond a minute":                    {export: 15 * time.Second, life: 63, cpu: second / 100, shows: true},
		"alive after five exports":           {export: 15 * time.Second, life: 76, cpu: second / 100, early: true, shows: true},
		"little CPU time":                    {export: 15 * time.Second, life: 29, cpu: 49e6},
		"some CPU time":                      {export: 15 * time.Second, life: 29, cpu: 51e6, early: true, shows: true},
		"little CPU time, long":              {export: 15 * time.Second, life: 59, cpu: 24e6},
		"some CPU time, long":                {export: 15 * time.Second, life: 59, cpu: 26e6, early: true, shows: true},
		"some, ended before an export":       {export: 15 * time.Second, life: 9, cpu: 51e6},
		"some, ended before an export, long": {export: 15 * time.Second, life: 41, cpu: 26e6, shows: true},
		"much, and ended before an export":   {export: 15 * time.Second, life: 9, cpu: second + 1, shows: true},
		"little memory":                      {export: 15 * time.Second, life: 59, peak: 63 * mib},
		"much memory":                        {export: 15 * time.Second, life: 29, peak: 64 * mib, early: true, shows: true},
		"much memory before an export":       {export: 15 * time.Second, life: 9, peak: 64 * mib},
		"few bytes":                          {export: 15 * time.Second, life: 59, written: 15 * mib},
		"many bytes":                         {export: 15 * time.Second, life: 29, written: 16 * mib, early: true, shows: true},
		"each 5 s, within a minute":          {export: 5 * time.Second, life: 59},
		"each 5 s, beyond a minute":          {export: 5 * time.Second, life: 66, early: true, shows: true},
		"each 5 s, some CPU time":            {export: 5 * time.Second, life: 29, cpu: 51e6, early: true, shows: true},
		"each second, within twelve":         {export: time.Second, life: 11},
		"each second, beyond twelve":         {export: time.Second, life: 14, early: true, shows: true},
		"rare exports, within one":           {export: time.Minute, life: 58},
		"rare exports, beyond one":           {export: time.Minute, life: 63, shows: true},
		"rare exports, little in three":      {export: 20 * time.Second, life: 59},
		"rare exports, little in four":       {export: 20 * time.Second, life: 63, shows: true},
	} {
		r := newRig(t, Config{Export: c.export})
		r.tick(0, nil)
		start := r.boot
		before := false
		for at := uint64(1); at < c.life; at++ {
			p := proc(100, 100, start, c.cpu*at/c.life)
			if 2*at > c.life || c.life < 10 {
				p.UserNanos = c.cpu
			}
			p.Have |= sensor.FieldPeak
			p.PeakBytes, p.WriteBytes = c.peak, c.written
			r.tick(0, []sensor.Process{p})
			// The exports are at odds with the start.
			if (at+2)%uint64(c.export/time.Second) == 0 {
				r.export()
				before = before || r.shows("group/n1/100")
			}
		}
		last := proc(100, 100, start, c.cpu)
		last.Have |= sensor.FieldPeak
		last.PeakBytes, last.WriteBytes = c.peak, c.written
		r.tick(0, nil, last)
		r.tick(0, nil)
		r.export()
		if shows := r.shows("group/n1/100"); shows != c.shows {
			t.Errorf("%s: series of its own %v, want %v", name, shows, c.shows)
		}
		if before != c.early {
			t.Errorf("%s: series while it runs %v, want %v", name, before, c.early)
		}
		want := 1.0
		if c.shows {
			want = 0
		}
		if got := r.values["reckon_short_workloads_total|alice"]; got != want {
			t.Errorf("%s: %v short groups, want %v", name, got, want)
		}
		if sum := r.cpu("short/alice/n1", "", "alice") + r.cpu("group/n1/100", "", "alice"); sum != float64(c.cpu)/1e9 {
			t.Errorf("%s: %v CPU seconds in all, want %v", name, sum, float64(c.cpu)/1e9)
		}
	}
}

// TestMemoryOfShortWork: what was folded has no present memory, threads or swap, its memory over time is the sum, and its peak,
// which is the largest group's, is at least so much.
func TestMemoryOfShortWork(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second})
	r.tick(0, nil)
	var live []sensor.Process
	for i := range int32(10) {
		p := proc(100+i, 100+i, r.boot, second/100)
		p.Have |= sensor.FieldPeak | sensor.FieldSwap
		p.Anon, p.PeakBytes = 3<<20, 4<<20
		live = append(live, p)
	}
	for range 10 {
		r.tick(0, live)
	}
	r.tick(0, nil, live...)
	r.tick(0, nil)
	r.export()
	const labels = "|short/alice/n1|short||alice"
	for _, name := range []string{"reckon_workload_memory_bytes" + labels + "|anon", "reckon_workload_memory_needed_bytes" + labels, "reckon_workload_threads" + labels, "reckon_workload_swap_bytes" + labels} {
		if v, ok := r.values[name]; ok {
			t.Errorf("%s is %v, though nothing of it is left", name, v)
		}
	}
	if got, least := r.values["reckon_workload_memory_byte_seconds_total"+labels], float64(10*9*3<<20); got < least {
		t.Errorf("%v byte-seconds, want at least %v", got, least)
	}
	r.want("peak", r.values["reckon_workload_memory_peak_bytes"+labels], 4<<20)
	found := 0
	for k, v := range r.values {
		if strings.HasPrefix(k, "reckon_figure_exactness|memory_peak_bytes|short|") || strings.HasPrefix(k, "reckon_figure_exactness|memory_needed_peak_bytes|short|") {
			found++
			r.want(k, v, float64(figure.AtLeast))
		}
	}
	if found != 2 {
		t.Errorf("the peaks of short work have %d series of their exactness: %v", found, r.values)
	}
}

// shows reports whether the exports so far had series of a workload.
func (r *rig) shows(workload string) bool {
	for k := range r.values {
		if strings.Contains(k, "|"+workload+"|") {
			return true
		}
	}
	return false
}

// A process group that sent a figure has a row of its own, however short it is; one that nobody allows is short work.
func TestKeptGroups(t *testing.T) {
	r := newRig(t, Config{Export: 10 * time.Second})
	r.tick(0, nil)
	yes, no := func() bool { return true }, func() bool { return false }
	if known, _ := r.l.ReserveSeries("group/n1/50", "", "alice", yes); known {
		t.Error("a group that no reading has seen is known")
	}
	kept, short := proc(50, 50, r.boot, 2e6), proc(60, 60, r.boot, 2e6)
	r.tick(0, []sensor.Process{kept, short})
	if known, own := r.l.ReserveSeries("group/n1/50", "", "alice", yes); !known || !own {
		t.Errorf("known %v, own %v", known, own)
	}
	if known, own := r.l.ReserveSeries("group/n1/60", "", "alice", no); !known || own {
		t.Errorf("known %v, own %v", known, own)
	}
	r.tick(0, nil, kept, short)
	for range 2 * lateTicks {
		r.tick(0, nil)
	}
	rows := rowsOf(r)
	if rows["group/n1/50"] != 0.002 || rows["short/alice/n1"] != 0.002 {
		t.Errorf("CPU seconds by row: %v", rows)
	}
}
