package answer

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"reckon/answer/findings"
	"reckon/catalogue/database"
	"reckon/figure/wire"
	"reckon/store"
	"reckon/web/client"
)

// TestByOwner: waste is added up by owner and resource, in descending order of core-hours; a resource
// without findings is unknown.
func TestByOwner(t *testing.T) {
	finding := func(owner, rule, severity string, evidence ...client.Evidence) wire.Finding {
		return wire.Finding{Owner: owner, Rule: rule, Severity: severity, Evidence: evidence}
	}
	wasted := func(v float64, unit string) wire.Evidence {
		return wire.Evidence{Text: "allocated and not used", Value: v, Unit: unit, Wasted: true}
	}
	got := byOwner([]wire.Finding{
		finding("alice", "over-requested", "medium", wasted(3600, "core-seconds"), wire.Evidence{Value: 0.1, Unit: "ratio"}),
		finding("bob", "gpu-unused", "medium", wasted(7200, "gpu-seconds"), wire.Evidence{Value: 9000, Unit: "gpu-seconds"}),
		finding("alice", "over-requested", "low", wasted(5, "byte-seconds")),
		finding("alice", "imbalance", "high", wasted(400, "core-seconds")),
		finding("carol", "cannot-start", "medium"),
		finding("dora", "over-share", "high", wire.Evidence{Value: 0.9, Unit: "ratio"}),
	})
	want := []wire.FindingOwner{
		{Owner: "alice", Findings: 3, Severity: "high", Rules: []string{"imbalance", "over-requested"}, CoreSeconds: new(4000.0), ByteSeconds: new(5.0)},
		{Owner: "bob", Findings: 1, Severity: "medium", Rules: []string{"gpu-unused"}, GPUSeconds: new(7200.0)},
		{Owner: "carol", Findings: 1, Severity: "medium", Rules: []string{"cannot-start"}},
		{Owner: "dora", Findings: 1, Severity: "high", Rules: []string{"over-share"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := byOwner(nil); got == nil || len(got) != 0 {
		t.Errorf("of nothing: %#v", got)
	}
}

// lookingStore evaluates the rules while a list is being read.
type lookingStore struct {
	*database.Catalogue
	keeper *findings.Keeper
	looked bool
}

func (s *lookingStore) Findings(ctx context.Context, f store.FindingFilter) ([]store.Finding, int, error) {
	list, n, err := s.Catalogue.Findings(ctx, f)
	if !s.looked {
		s.looked = true
		err = errors.Join(err, s.keeper.Look(ctx))
	}
	return list, n, err
}

// TestLookWhileListed: a list that was read before the first evaluation ended does not claim to be checked.
func TestLookWhileListed(t *testing.T) {
	h := newHistory(t)
	facts, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	k := &findings.Keeper{Evaluator: &findings.Evaluator{Series: h.s, Facts: facts}, Clock: func() time.Time { return h.now }}
	k.Store = &lookingStore{Catalogue: facts, keeper: k}
	c := &Findings{Keeper: k}
	if list, err := c.Findings(t.Context(), wire.FindingFilter{}); err != nil || list.Looked != nil {
		t.Errorf("read before: looked at %v, %v", list.Looked, err)
	}
	if list, err := c.Findings(t.Context(), wire.FindingFilter{}); err != nil || list.Looked == nil {
		t.Errorf("read after: %v", err)
	}
}
