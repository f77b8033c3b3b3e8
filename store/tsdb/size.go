package tsdb

import promtsdb "github.com/prometheus/prometheus/tsdb"

// Each sample that is appended, and each series that is read, is looked up by its number in one of many maps. In a map of up to eight
// series that takes two lines of the processor's cache less than in a larger one. How many maps there are is fixed when the database is
// opened, so that the store notes how many series it had.

const (
	// perStripe is the largest average number of series in a map.
	perStripe = 6
	// leastStripes and mostStripes are how many maps there are, 240 bytes each and 290 more once it holds series. They are powers of two.
	leastStripes, mostStripes = 512, 1 << 19
)

// stripes is the number of maps for so many series.
func stripes(series int) int {
	n := leastStripes
	for n*perStripe < series && n < mostStripes {
		n *= 2
	}
	return n
}

// noteSize takes how many series there are, for the note of the logs, where that is another number of maps than was noted.
func (s *Store) noteSize(db *promtsdb.DB) {
	now, was := int(db.Head().NumSeries()), s.size
	// Memory is nearly empty after a start without a log, and larger while series come and go: half of what was noted is no news.
	if stripes(now) == stripes(was) || now < was && stripes(now) >= stripes(was)/2 || now <= s.opts.Series && was <= s.opts.Series {
		return
	}
	s.size = now
}
