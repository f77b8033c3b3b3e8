package answer

import (
	"context"
	"math"
	"testing"
	"time"

	"reckon/access"
	"reckon/figure/wire"
	"reckon/query"
	"reckon/web/client"
)

type gpuSpaces []query.GPUSpace

func (g gpuSpaces) GPUSpaces(context.Context, time.Time, time.Time) ([]query.GPUSpace, error) {
	return g, nil
}

func tenant(memory, mean, peak float64) wire.GPUTenant {
	t := wire.GPUTenant{Workload: "slurm/7", Owner: "ada", MemoryPeak: ptr(memory)}
	if mean >= 0 {
		t.BusyMean, t.BusyPeak = ptr(mean), ptr(peak)
	}
	return t
}

func TestJudgeShare(t *testing.T) {
	const gb = 1 << 30
	a100 := query.GPUSpace{Model: "NVIDIA A100-SXM4-40GB", MemoryBytes: ptr(40 * gb)}
	orin := query.GPUSpace{Model: "Jetson AGX Orin", MemoryBytes: ptr(30 * gb)}
	with := func(s query.GPUSpace, tenants ...client.GPUTenant) query.GPUSpace { s.Tenants = tenants; return s }
	ask := wire.FitQuery{GPUs: 0.4, GPUMemoryBytes: 3 * gb}
	for name, c := range map[string]struct {
		s        query.GPUSpace
		q        wire.FitQuery
		fits     string // yes, no, unknown
		why      string
		slowdown float64 // 0: unknown
		profile  string
	}{
		"free":                       {a100, ask, "yes", "", 1, "MIG 3g.20gb"},
		"beside one":                 {with(a100, tenant(37*gb, 0.5, 0.6)), ask, "yes", "", 1, "MIG 3g.20gb"},
		"a byte too little":          {with(a100, tenant(37*gb+1, 0.5, 0.6)), ask, "no", "too little: memory", 1, "MIG 3g.20gb"},
		"busy at times":              {with(a100, tenant(gb, 0.5, 0.9)), ask, "yes", "they slow each other down by 30 % when all are at their busiest", 1, "MIG 3g.20gb"},
		"all of the time":            {with(a100, tenant(gb, 0.6, 0.9)), ask, "yes", "they slow each other down by 30 % when all are at their busiest", 1, "MIG 3g.20gb"},
		"more than all of the time":  {with(a100, tenant(gb, 0.5, 0.5), tenant(gb, 0.3, 0.3)), ask, "no", "too little: time", 1.2, "MIG 3g.20gb"},
		"unknown use":                {with(a100, tenant(gb, -1, 0)), ask, "unknown", "not known: use of the tenants", 0, "MIG 3g.20gb"},
		"unknown use, no memory":     {with(a100, tenant(39*gb, -1, 0)), ask, "no", "too little: memory", 0, "MIG 3g.20gb"},
		"unknown size":               {query.GPUSpace{Model: "x"}, ask, "unknown", "not known: memory", 1, "time slices, 2 of such jobs"},
		"no partitions":              {orin, ask, "yes", "", 1, "time slices, 2 of such jobs"},
		"no partitions, much memory": {orin, wire.FitQuery{GPUs: 0.1, GPUMemoryBytes: 10 * gb}, "yes", "", 1, "time slices, 3 of such jobs"},
		"a partition":                {query.GPUSpace{Model: "NVIDIA A100-SXM4-40GB MIG 1g.5gb", Parent: "GPU-1", MemoryBytes: ptr(5 * gb)}, ask, "yes", "", 1, ""},
		"one seventh":                {a100, wire.FitQuery{GPUs: 1.0 / 7, GPUMemoryBytes: 4 * gb}, "yes", "", 1, "MIG 1g.5gb"},
		"one seventh, much memory":   {a100, wire.FitQuery{GPUs: 1.0 / 7, GPUMemoryBytes: 12 * gb}, "yes", "", 1, "MIG 3g.20gb"},
		"more than there is":         {a100, wire.FitQuery{GPUMemoryBytes: 41 * gb}, "no", "too little: memory", 1, ""},
	} {
		g := judgeShare(&c.s, c.q)
		fits := "unknown"
		if g.Fits != nil {
			fits = map[bool]string{true: "yes", false: "no"}[*g.Fits]
		}
		slowdown := 0.0
		if g.SlowdownAtLeast != nil {
			slowdown = *g.SlowdownAtLeast
		}
		if fits != c.fits || g.Why != c.why || math.Abs(slowdown-c.slowdown) > 1e-9 || g.Profile != c.profile {
			t.Errorf("%s: %s, %q, %.2f, %q, want %s, %q, %.2f, %q", name, fits, g.Why, slowdown, g.Profile, c.fits, c.why, c.slowdown, c.profile)
		}
	}
}

// The fullest GPU that suffices comes first; names are shown to those who may see them; of a
// divided device only the partitions are listed.
func TestSharing(t *testing.T) {
	const gb = 1 << 30
	f := &Fit{Clock: time.Now, GPUs: gpuSpaces{
		{Node: "free", Device: "a", MemoryBytes: ptr(40 * gb)},
		{Node: "full", Device: "b", MemoryBytes: ptr(40 * gb), Tenants: []wire.GPUTenant{tenant(gb, 0.9, 1)}},
		{Node: "half", Device: "c", MemoryBytes: ptr(40 * gb), Tenants: []wire.GPUTenant{tenant(gb, 0.5, 0.5)}},
		{Node: "divided", Device: "d", MemoryBytes: ptr(40 * gb), Partitions: 2},
	}}
	for who, c := range map[string]struct {
		viewer access.Viewer
		name   string
	}{
		"admin": {access.Viewer{Role: access.Admin}, "slurm/7"}, "owner": {access.Viewer{Role: access.User, Name: "ada"}, "slurm/7"},
		"other": {access.Viewer{Role: access.User, Name: "bob"}, "another user's"}, "public": {access.Viewer{Role: access.Public}, "another user's"},
	} {
		var list wire.FitList
		if err := f.judgeSharing(access.With(t.Context(), c.viewer), &list, wire.FitQuery{GPUs: 0.4}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if len(list.Sharing) != 3 || list.Sharing[0].Node != "half" || list.Sharing[1].Node != "free" || list.Sharing[2].Node != "full" {
			t.Fatalf("%s: %+v", who, list.Sharing)
		}
		if n := list.Sharing[0].Tenants[0]; n.Workload != c.name || (n.Owner != "") != (c.name == "slurm/7") {
			t.Errorf("%s sees %+v", who, n)
		}
	}
	if f.GPUs.(gpuSpaces)[2].Tenants[0].Owner != "ada" {
		t.Error("what was read was changed")
	}
}
