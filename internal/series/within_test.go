package series

import (
	"testing"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Both ends are inclusive, wherever a reader begins.
func TestWithin(t *testing.T) {
	list := samples{sample{t: 1, v: 1}, sample{t: 5, v: 5}, sample{t: 6, v: 6}, sample{t: 9, v: 9}}
	for _, c := range []struct {
		from, to, seek int64 // seek: 0 for none
		want           []float64
	}{
		{1, 9, 0, []float64{1, 5, 6, 9}}, {2, 8, 0, []float64{5, 6}}, {5, 6, 0, []float64{5, 6}}, {6, 6, 0, []float64{6}}, {7, 8, 0, nil}, {10, 20, 0, nil}, {0, 0, 0, nil},
		{2, 8, 1, []float64{5, 6}}, {2, 8, 6, []float64{6}}, {2, 8, 7, nil},
	} {
		w := &timeRange{Iterator: storage.NewListSeriesIterator(list), from: c.from, to: c.to}
		var got []float64
		next := w.Next
		if c.seek != 0 {
			next = func() chunkenc.ValueType { next = w.Next; return w.Seek(c.seek) }
		}
		for next() != chunkenc.ValNone {
			_, v := w.At()
			got = append(got, v)
		}
		if len(got) != len(c.want) || len(got) > 0 && (got[0] != c.want[0] || got[len(got)-1] != c.want[len(c.want)-1]) {
			t.Errorf("from %d to %d, sought %d: %v, want %v", c.from, c.to, c.seek, got, c.want)
		}
	}
}
