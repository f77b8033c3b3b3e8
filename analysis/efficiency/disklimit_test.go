package efficiency

import (
	"strings"
	"testing"

	"reckon/figure"
)

// TestDiskLimit: the edges of sentences about a limit on a disk.
func TestDiskLimit(t *testing.T) {
	const limit = "slows it down"
	job := func(edit ...func(*Usage)) Usage {
		return batch(8, 0.5, 1, append([]func(*Usage){func(u *Usage) {
			u.DiskLimit = &DiskLimit{Node: "n1", Device: "sda", Direction: "write", Limit: 1e8, Observed: 3600, Seconds: 360, Rate: 99e6, Cores: 0.5}
		}}, edit...)...)
	}
	for name, c := range map[string]struct {
		u    Usage
		want bool
	}{
		"reached":            {job(), true},
		"for less time":      {job(func(u *Usage) { u.DiskLimit.Seconds-- }), false},
		"too short":          {job(func(u *Usage) { u.WallSeconds, u.DiskLimit.Observed, u.DiskLimit.Seconds = 60, 60, 9.9 }), false},
		"long enough":        {job(func(u *Usage) { u.WallSeconds, u.DiskLimit.Observed, u.DiskLimit.Seconds = 60, 60, 10 }), true},
		"half its cores":     {job(func(u *Usage) { u.DiskLimit.Cores = 4 }), false},
		"almost half":        {job(func(u *Usage) { u.DiskLimit.Cores = 3.99 }), true},
		"its one thread":     {job(func(u *Usage) { u.MostThreads, u.DiskLimit.Cores = at(1), 0.5 }), false},
		"CPU time at least":  {job(func(u *Usage) { u.Exactness = figure.Degrees{"cpu_seconds": figure.AtLeast} }), false},
		"allocation changed": {job(func(u *Usage) { u.Resized = true }), false},
		"no limit":           {job(func(u *Usage) { u.DiskLimit = nil }), false},
		"hardly any CPU":     {job(func(u *Usage) { u.CPUSeconds, u.CoresP95, u.DiskLimit.Cores = at(60), at(0.01), 0.01 }), true},
	} {
		got := spoken(c.u)
		if strings.Contains(got, limit) != c.want || c.want && strings.Contains(got, "it was idle") {
			t.Errorf("%s: want the sentence: %v, it says\n%s", name, c.want, got)
		}
	}
	if got := spoken(job(func(u *Usage) { u.WallSeconds = 1e6 })); !strings.Contains(got, "(10 % of its last 1 h) it wrote 94.4 MiB a second of the 95.4 MiB a second") {
		t.Error(got)
	}
}
