package tsdb

import promtsdb "github.com/prometheus/prometheus/tsdb"

// Each appended sample and each series read is looked up by number in one of many maps. A map of up
// to eight series takes two cache lines less than a larger one. The number of maps is fixed when
// the database is opened, so the store records its number of series.

const (
	// maxSeriesPerStripe is the largest average number of series in a map.
	maxSeriesPerStripe = 6
	// minStripes and maxStripes limit the number of maps, at 240 bytes each and 290 more with series. They are powers of two.
	minStripes, maxStripes = 512, 1 << 19
)

// stripeCount returns the number of maps for so many series.
func stripeCount(series int) int {
	n := minStripes
	for n*maxSeriesPerStripe < series && n < maxStripes {
		n *= 2
	}
	return n
}

// noteSize records the number of series in the note of the logs if that changes the number of maps.
func (s *Store) noteSize(db *promtsdb.DB) {
	now, was := int(db.Head().NumSeries()), s.size
	// The number of series is near zero after a start without a log and varies as series come
	// and go. A drop to half of the noted size is therefore ignored.
	if stripeCount(now) == stripeCount(was) || now < was && stripeCount(now) >= stripeCount(was)/2 || now <= s.opts.Series &&
		was <= s.opts.Series {
		return
	}
	s.size = now
}
