package resident

import (
	"slices"
	"strings"
	"testing"
)

func TestShed(t *testing.T) {
	whole, err := programAreas()
	if err != nil {
		t.Fatal(err)
	}
	var bytes uint64
	for _, a := range whole {
		bytes += a.length
	}
	if bytes < 1<<20 {
		t.Errorf("%d bytes: a test program has more code than that", bytes)
	}
	splitMappings(whole)
	parts, err := programAreas()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range parts {
		if bytes -= a.length; a.length > chunkSize {
			t.Errorf("%d bytes at %x, want at most a chunk", a.length, a.from)
		}
	}
	if bytes != 0 {
		t.Errorf("%d bytes are gone", int64(bytes))
	}
	releasePages(whole)
	if strings.ToUpper("still running") != "STILL RUNNING" {
		t.Error("the program is damaged")
	}
}

// TestWhat: only mappings of the program that cannot have been modified are dropped.
func TestWhat(t *testing.T) {
	const maps = `00400000-024dd000 r-xp 00000000 fe:00 4711                               /usr/bin/reckon
024dd000-04ae4000 r--p 020dd000 fe:00 4711                               /usr/bin/reckon
04ae4000-04cbe000 rw-p 046e4000 fe:00 4711                               /usr/bin/reckon
05000000-05001000 r--s 00000000 fe:00 4711                               /usr/bin/reckon
06000000-06001000 r--p 00000000 fe:00 9                                  /opt/usr/bin/reckon.old
07000000-07001000 r--p 00000000 fe:00 9                                  /lib/x.so
c000000000-c000400000 rw-p 00000000 00:00 0
7ffc00000000-7ffc00021000 r--p 00000000 00:00 0                          [vvar]
nonsense /usr/bin/reckon
`
	got, err := parseAreas(strings.NewReader(maps), "/usr/bin/reckon")
	if want := []area{{0x400000, 0x20dd000}, {0x24dd000, 0x2607000}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%x (%v), want %x", got, err, want)
	}
}
