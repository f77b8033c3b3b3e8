package tsdb

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	promtsdb "github.com/prometheus/prometheus/tsdb"

	"reckon/internal/durable"
)

// Each sample that is appended, and each series that is read, is looked up by its number in one of many maps. In a map of up to
// eight series that takes two lines of the processor's cache less than in a larger one. How many maps there are is fixed when the
// database is opened, so that the store notes how many series it had.

const (
	// perStripe is the largest average number of series in a map.
	perStripe = 6
	// leastStripes and mostStripes are how many maps there are, 240 bytes each and 290 more once it holds series. They are powers of two.
	leastStripes, mostStripes = 512, 1 << 19
	// sizeFile says how many series were in memory.
	sizeFile = "size"
)

// stripes is the number of maps for so many series.
func stripes(series int) int {
	n := leastStripes
	for n*perStripe < series && n < mostStripes {
		n *= 2
	}
	return n
}

// loadSize reads how many series there were; 0 where that is not known.
func (s *Store) loadSize() {
	raw, err := os.ReadFile(filepath.Join(s.opts.Dir, sizeFile))
	if err != nil {
		return
	}
	if raw, err = durable.Unseal(raw); err != nil {
		return
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
		s.size.Store(int64(max(n, 0)))
	}
}

// noteSize writes how many series there are where that is another number of maps than was noted.
func (s *Store) noteSize(db *promtsdb.DB) {
	now, was := int(db.Head().NumSeries()), int(s.size.Load())
	// Memory is nearly empty after a start without a log, and larger while series come and go: half of what was noted is no news.
	if stripes(now) == stripes(was) || now < was && stripes(now) >= stripes(was)/2 || now <= s.opts.Series && was <= s.opts.Series {
		return
	}
	if err := durable.Replace(filepath.Join(s.opts.Dir, sizeFile), durable.Seal([]byte(strconv.Itoa(now)+"\n")), 0o640); err != nil {
		s.log.Debug("the number of series could not be noted; tables are made for fewer at the next start", "err", err)
		return
	}
	s.size.Store(int64(now))
}
