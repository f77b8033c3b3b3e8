package catalogue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/store/tsdb"
)

// reads counts the series that a builder is given, by queries of samples.
type reads struct {
	*tsdb.Store
	series int
}

func (r *reads) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := r.Store.Querier(mint, maxt)
	return countingQuerier{q, r}, err
}

type countingQuerier struct {
	storage.Querier
	r *reads
}

func (q countingQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return countingSet{q.Querier.Select(ctx, sorted, h, ms...), q.r}
}

type countingSet struct {
	storage.SeriesSet
	r *reads
}

func (s countingSet) Next() bool {
	ok := s.SeriesSet.Next()
	if ok {
		s.r.series++
	}
	return ok
}

// TestRoundReadsWhatIsNew: groups that ended in the last minutes are not read again each round, and
// what nodes send late is.
func TestRoundReadsWhatIsNew(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	counted := &reads{Store: x.s}
	b := NewBuilder(counted, x.c, BuilderOptions{Clock: func() time.Time { return x.now }})
	turn := func() int {
		t.Helper()
		x.work(steady)
		x.exportAll()
		b.roll.next = x.now.Add(time.Hour)
		counted.series = 0
		advance(t, b)
		return counted.series
	}
	x.begin("slurm/1", partPlace{Node: "n1"})
	turn()
	few := turn()
	for i := range 100 {
		tr := x.begin(fmt.Sprintf("group/n1/%d-1", i), partPlace{Node: "n1"})
		x.work(steady)
		x.exportAll()
		x.end(tr)
	}
	x.step = time.Second
	turn()
	if got := turn(); got != few {
		t.Errorf("%d series were read a round after 100 groups ended, %d before them", got, few)
	}
	x.cut["n2"] = true
	late := x.begin("group/n2/7-7", partPlace{Node: "n2"})
	turn()
	x.end(late)
	x.step = 15 * time.Second
	turn()
	turn()
	x.flush()
	turn()
	x.check(t, "after a node was late", x.rows(), x.now)
}
