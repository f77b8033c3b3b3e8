package tsdb

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/store/storetest"
)

// residentFiles is the number of KiB of the mapped files below a directory that are resident.
func residentFiles(t *testing.T, dir string) (kib int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip("no map of the process's memory here: ", err)
	}
	defer f.Close()
	within := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		var n int
		switch {
		case strings.Contains(line, "-") && !strings.Contains(line, ":  "):
			within = strings.Contains(line, dir+"/")
		case within && strings.HasPrefix(line, "Rss:"):
			if _, err := fmt.Sscanf(line, "Rss: %d", &n); err != nil {
				t.Fatal(err)
			}
			kib += n
		}
	}
	return kib
}

// What a block of ended series has in memory is given back, comes again when it is read, and is the same then.
func TestBlocksOfEndedSeriesAreUnmapped(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	const blocks, each = 3, 2000
	for i := range blocks {
		now = now.Add(time.Minute)
		ended(t, s, now, fmt.Sprint(i), each)
		s.evictNow(s.db)
	}
	read := func() int {
		t.Helper()
		return len(storetest.Read(t, s, now.Add(-time.Hour), now, labels.MustNewMatcher(labels.MatchRegexp, "workload", "group/[0-9]+/.*")))
	}
	for range 2 {
		if n := read(); n != blocks*each {
			t.Fatalf("%d series, want %d", n, blocks*each)
		}
		before := residentFiles(t, s.opts.Dir)
		s.unmapEnded(s.db)
		after := residentFiles(t, s.opts.Dir)
		t.Logf("%d KiB resident before, %d after", before, after)
		if before == 0 || after > before/4 { // chunks of the head are mapped, too
			t.Fatalf("%d KiB resident before, %d after", before, after)
		}
	}
}

// A file that is mapped twice, otherwise than the database maps it, deleted or of another block is left alone.
func TestUnmapOnlyTheBlocksOwn(t *testing.T) {
	const maps = `00400000-00500000 r--p 00000000 fe:00 1 /usr/bin/reckon
7f0000000000-7f0000010000 r--s 00000000 fe:00 2                          /data/my series/A/index
7f0000010000-7f0000030000 r--s 00000000 fe:00 3                          /data/my series/A/chunks/000001
7f0000030000-7f0000040000 r--s 00000000 fe:00 4                          /data/my series/B/index
7f0000040000-7f0000050000 r--s 00000000 fe:00 5                          /data/my series/C/index
7f0000050000-7f0000060000 r--s 00000000 fe:00 5                          /data/my series/C/index
7f0000060000-7f0000070000 rw-p 00000000 fe:00 6                          /data/my series/C/chunks/000001
7f0000070000-7f0000080000 r--s 00000000 fe:00 7                          /data/my series/C/chunks/000002 (deleted)
7f0000080000-7f0000090000 rw-p 00000000 00:00 0
7ffe00000000-7ffe00010000 rw-p 00000000 00:00 0                          [stack]
`
	var got []uint64
	err := eachMapping(strings.NewReader(maps), map[string]bool{"/data/my series/A": true, "/data/my series/C": true}, func(from,
		length uint64) error {
		got = append(got, from, length)
		return nil
	})
	slices.Sort(got)
	if want := []uint64{0x10000, 0x20000, 0x7f0000000000, 0x7f0000010000}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%x %v, want %x", got, err, want)
	}
}

// The pages that writing and opening a block has touched are given back at once: such blocks may follow each other every few seconds.
func TestNewBlocksOfEndedSeriesAreUnmapped(t *testing.T) {
	now := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	ended(t, s, now, "first", minEndedSeries)
	s.evictNow(s.db)
	before := residentFiles(t, s.opts.Dir)
	now = now.Add(time.Minute)
	ended(t, s, now, "second", minEndedSeries)
	s.evictEnded(s.db)
	if n := len(s.db.Blocks()); n != 2 {
		t.Fatalf("%d blocks", n)
	}
	after := residentFiles(t, s.opts.Dir)
	t.Logf("%d KiB resident of a block, %d of two after the second", before, after)
	if before == 0 || after > before/2 { // chunks of the head are mapped, too
		t.Errorf("%d KiB resident of a block, %d of two after the second", before, after)
	}
}
