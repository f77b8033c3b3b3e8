package catalogue

import (
	"math"
	"testing"
	"time"

	"reckon/store"
)

// provenSite is a site of two nodes over some hours; one was silent for some of them.
func provenSite(t *testing.T) (*site, *Builder) {
	x := newSite(t, t.TempDir(), simBegin)
	t.Cleanup(x.close)
	x.step = time.Minute
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"})
	x.begin("unit/b", partPlace{Node: "n2"})
	for i := range 330 {
		x.work(steady)
		x.exportAll()
		if i == 60 {
			x.cut["n2"] = true
		}
		if i == 240 {
			x.flush()
		}
		if i%50 == 0 {
			b.roll.next = time.Time{}
			advance(t, b)
		}
	}
	b.roll.next = time.Time{}
	advance(t, b)
	return x, b
}

func TestProof(t *testing.T) {
	x, b := provenSite(t)
	p, err := b.Prove(t.Context(), ProofOptions{})
	if err != nil || p.Differing != 0 || p.Accounted() != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if want := simBegin.Truncate(time.Hour); !p.From.Equal(want) || !p.To.Equal(want.Add(6*time.Hour)) || p.Hours != 6 || p.Nodes < 10 || p.RawCPU <= 0 || !p.Made.Equal(x.now) {
		t.Errorf("covers %+v", p)
	}
	// Samples that come late are no difference: they are taken in first.
	b.roll.next = x.now.Add(time.Hour)
	x.cut["n1"] = true
	late := len(x.truth)
	x.begin("unit/c", partPlace{Node: "n1"})
	for range 90 {
		x.work(steady)
		x.exportAll()
	}
	x.flush()
	if p, err = b.Prove(t.Context(), ProofOptions{}); err != nil || p.Differing != 0 || len(x.truth) == late {
		t.Errorf("after late samples: %+v, %v", p, err)
	}
}

// What differs is named, counts, and is mended.
func TestProofFindsDifference(t *testing.T) {
	x, b := provenSite(t)
	hour := simBegin.Truncate(time.Hour).Add(2 * time.Hour)
	spoil := func(f func(u []store.Use, n []store.NodeUse) ([]store.Use, []store.NodeUse)) {
		t.Helper()
		q := store.RollupQuery{From: hour, To: hour.Add(time.Hour), Span: store.SpanHour, By: []string{"site", "owner", "kind", "command", "account", "partition"}}
		use, err := x.c.Use(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.By = []string{"site", "node"}
		nodes, err := x.c.NodeUse(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		use, nodes = f(use, nodes)
		if err := x.c.ReplaceHours(t.Context(), hour, hour.Add(time.Hour), use, nodes); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		spoil func(u []store.Use, n []store.NodeUse) ([]store.Use, []store.NodeUse)
		node  string
		least int
		full  bool // CPU time is accounted for
	}{
		"hour lost": {func([]store.Use, []store.NodeUse) ([]store.Use, []store.NodeUse) { return nil, nil }, "", 9, false},
		"node lost": {func(u []store.Use, n []store.NodeUse) ([]store.Use, []store.NodeUse) { return u, n[:1] }, "n2", 3, false},
		"twice":     {func(u []store.Use, n []store.NodeUse) ([]store.Use, []store.NodeUse) { return append(u, u...), n }, "", 3, false},
		"a part in 10^8": {func(u []store.Use, n []store.NodeUse) ([]store.Use, []store.NodeUse) {
			n[0].ReadBytes = new(*n[0].ReadBytes * (1 + 1e-8))
			return u, n
		}, "n1", 1, true},
		"a part in 10^10": {func(u []store.Use, n []store.NodeUse) ([]store.Use, []store.NodeUse) {
			n[0].ReadBytes = new(*n[0].ReadBytes * (1 + 1e-10))
			return u, n
		}, "", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			spoil(tt.spoil)
			p, err := b.Prove(t.Context(), ProofOptions{})
			if err != nil || p.Differing < tt.least || (tt.least == 0) != (p.Differing == 0) || (p.Accounted() == 1) != tt.full || p.Mended {
				t.Fatalf("%+v, %v", p, err)
			}
			for _, d := range p.Differences {
				if !d.Hour.Equal(hour) || (tt.node != "" && d.Node != tt.node) {
					t.Errorf("difference %+v", d)
				}
			}
			if p, err = b.Prove(t.Context(), ProofOptions{Since: hour.Add(time.Hour)}); err != nil || p.Differing != 0 {
				t.Errorf("of the hours after: %+v, %v", p, err)
			}
			if p, err = b.Prove(t.Context(), ProofOptions{Mend: true}); err != nil || p.Mended != (tt.least > 0) {
				t.Errorf("mend: %+v, %v", p, err)
			}
			if p, err = b.Prove(t.Context(), ProofOptions{}); err != nil || p.Differing != 0 || math.Abs(p.Accounted()-1) > 0 {
				t.Errorf("after mending: %+v, %v", p, err)
			}
			x.checkRollups(t, "mended")
		})
	}
}

// Hours with forgotten samples are not proven, and stay.
func TestProofWithoutSamples(t *testing.T) {
	x, b := provenSite(t)
	hour := simBegin.AddDate(0, 0, -30).Truncate(time.Hour)
	if err := x.c.ReplaceHours(t.Context(), hour, hour.Add(time.Hour), []store.Use{{At: hour, Site: "s", Owner: "old", Used: store.Used{CPUSeconds: new(5.0)}}}, nil); err != nil {
		t.Fatal(err)
	}
	p, err := b.Prove(t.Context(), ProofOptions{Mend: true})
	if err != nil || p.Hours != 0 || p.Differing != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	use, err := x.c.Use(t.Context(), store.RollupQuery{From: hour, To: hour.Add(time.Hour), Span: store.SpanWhole})
	if err != nil || len(use) != 1 || *use[0].CPUSeconds != 5 {
		t.Errorf("%+v, %v", use, err)
	}
}
