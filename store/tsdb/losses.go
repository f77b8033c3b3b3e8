package tsdb

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/record"

	"reckon/store"
)

// losses determines the time ranges of samples that were lost in the logs. A loss lasts from the last readable sample
// before a damaged place to the first one after it. The samples of a series with a lost definition are also lost.
type losses struct {
	dec    record.Decoder
	known  map[chunks.HeadSeriesRef]bool
	newest int64 // time of the newest sample so far, milliseconds
	list   []loss

	outOfOrder bool  // in the log of samples out of order
	oldestOOO  int64 // oldest readable sample out of order
}

// loss is a damaged place with the time range of the lost samples.
type loss struct {
	segment  *logSegment
	bad      badRecord
	from, to int64
}

// findLosses reads all logs again. since is the end of the time range that blocks hold whole.
func findLosses(dir string, all []logSegment, noted *notedLogs, since int64, log *slog.Logger) ([]loss, error) {
	l := &losses{dec: record.NewDecoder(nil, log), known: map[chunks.HeadSeriesRef]bool{}, newest: since, oldestOOO: math.MaxInt64}
	for i := range all {
		s := &all[i]
		if s.log == "wbl" && (i == 0 || all[i-1].log != "wbl") { // samples out of order start again
			if i > 0 {
				l.endOpenLosses(newestPossibleTime(dir, all[i-1], noted))
			}
			l.newest, l.outOfOrder = since, true
		}
		if len(s.bad) > 0 && s.bad[0].at < 0 {
			l.addBad(s, s.bad[0])
			continue
		}
		before := len(l.list)
		if _, err := eachRecord(filepath.Join(dir, s.file), l.addRecord, func(b badRecord) error {
			l.addBad(s, b)
			return nil
		}); err != nil {
			return nil, err
		}
		if len(l.list)-before < len(s.bad) {
			l.addBad(s, s.bad[len(s.bad)-1]) // it is cut off between two records
		}
	}
	if len(all) > 0 {
		newest := newestPossibleTime(dir, all[len(all)-1], noted)
		l.endOpenLosses(newest)
		l.widenOutOfOrder(noted, newest)
	}
	return l.list, nil
}

// widenOutOfOrder extends the losses in the out-of-order log to the times of all such samples, because the samples around a
// damaged place do not limit the times of those in it.
func (l *losses) widenOutOfOrder(noted *notedLogs, newest int64) {
	oldest := l.oldestOOO
	if noted != nil && noted.OldestOOO != 0 {
		oldest = min(oldest, noted.OldestOOO)
	}
	for i := range l.list {
		if x := &l.list[i]; x.segment.log == "wbl" {
			x.from, x.to = min(x.from, oldest), max(x.to, newest)
		}
	}
}

// newestPossibleTime returns the latest possible time of a sample in a log, in milliseconds. If the store was closed properly, it
// is the noted time of the newest sample. Otherwise it is the modification time of the last segment, or the current
// time if that segment is missing.
func newestPossibleTime(dir string, last logSegment, noted *notedLogs) int64 {
	if noted != nil && !noted.Open {
		return noted.Newest
	}
	newest := time.Now().UnixMilli()
	if st, err := os.Stat(filepath.Join(dir, last.file)); err == nil {
		newest = st.ModTime().UnixMilli()
	}
	if noted != nil {
		newest = max(newest, noted.Newest)
	}
	return newest
}

func (l *losses) addBad(s *logSegment, b badRecord) {
	l.list = append(l.list, loss{s, b, l.newest, unknownEnd})
}

// unknownEnd is the end of a loss after which no sample was found yet.
const unknownEnd = math.MaxInt64

// endOpenLosses ends the losses that have no end yet.
func (l *losses) endOpenLosses(t int64) {
	for i := len(l.list) - 1; i >= 0 && l.list[i].to == unknownEnd; i-- {
		l.list[i].to = max(t, l.list[i].from)
	}
}

// addRecord notes the series and the sample times in a record.
func (l *losses) addRecord(rec []byte) error {
	switch l.dec.Type(rec) {
	case record.Series:
		list, err := l.dec.Series(rec, nil)
		for _, s := range list {
			l.known[s.Ref] = true
		}
		return err
	case record.Samples, record.SamplesV2:
		list, err := l.dec.Samples(rec, nil)
		for _, s := range list {
			l.addSample(s.Ref, s.T)
		}
		return err
	case record.HistogramSamples, record.CustomBucketsHistogramSamples, record.HistogramSamplesV2:
		list, err := l.dec.HistogramSamples(rec, nil)
		for _, s := range list {
			l.addSample(s.Ref, s.T)
		}
		return err
	case record.FloatHistogramSamples, record.CustomBucketsFloatHistogramSamples, record.FloatHistogramSamplesV2:
		list, err := l.dec.FloatHistogramSamples(rec, nil)
		for _, s := range list {
			l.addSample(s.Ref, s.T)
		}
		return err
	}
	return nil
}

func (l *losses) addSample(ref chunks.HeadSeriesRef, t int64) {
	if l.outOfOrder {
		l.oldestOOO = min(l.oldestOOO, t)
	}
	if n := len(l.list); n > 0 && !l.known[ref] { // the definition of the series was lost
		l.endOpenLosses(t)
		last := &l.list[n-1]
		last.from, last.to = min(last.from, t), max(last.to, t)
		return
	}
	l.endOpenLosses(t)
	l.newest = max(l.newest, t)
}

// toGap returns a loss as a gap, which ends after the last lost sample.
func (l loss) toGap(kept string, now time.Time) store.Gap {
	g := store.Gap{To: time.UnixMilli(l.to + 1), File: l.segment.file, Why: l.bad.why, Kept: kept, Noticed: now}
	if l.bad.at >= 0 {
		g.Why = fmt.Sprintf("at byte %d: %s", l.bad.at, l.bad.why)
	}
	if l.from != math.MinInt64 {
		g.From = time.UnixMilli(l.from)
	}
	return g
}
