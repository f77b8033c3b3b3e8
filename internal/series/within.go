package series

import "github.com/prometheus/prometheus/tsdb/chunkenc"

// milliseconds is an alias because vet would take Seek for the method of io.Seeker.
type milliseconds = int64

// timeRange returns the samples of an iterator in a time range, both ends included.
type timeRange struct {
	chunkenc.Iterator
	from, to int64
	begun    bool
}

// Next implements chunkenc.Iterator.
func (w *timeRange) Next() chunkenc.ValueType {
	if !w.begun {
		return w.Seek(w.from)
	}
	return w.checkEnd(w.Iterator.Next())
}

// Seek implements chunkenc.Iterator.
func (w *timeRange) Seek(t milliseconds) chunkenc.ValueType {
	w.begun = true
	return w.checkEnd(w.Iterator.Seek(max(t, w.from)))
}

func (w *timeRange) checkEnd(vt chunkenc.ValueType) chunkenc.ValueType {
	if vt != chunkenc.ValNone && w.AtT() > w.to {
		return chunkenc.ValNone
	}
	return vt
}
