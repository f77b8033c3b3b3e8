package resident

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestJoin(t *testing.T) {
	const page = hugePage / 512
	maps := "00400000-01fc1000 r-xp 00000000 fe:00 10387527 /usr/bin/reckon\n" +
		"c000000000-c002000000 rw-p 00000000 00:00 0 \n" + // 16 huge pages
		"c003000000-c003200000 rw-p 00000000 00:00 0 \n" + // small
		"c004000000-c008000000 ---p 00000000 00:00 0 \n" + // reserved
		"c010100000-c014300000 rw-p 00000000 00:00 0 [anon: Go: heap]\n" + // not aligned, and more than is asked for at a time
		"7f0000000000-7f0004000000 rw-p 00000000 00:00 0 [stack]\n" +
		"7f1000000000-7f1004000000 rw-s 00000000 fe:00 77 /data/wal\n" +
		"short\n"
	resident := map[uint64]int{0xc000000000: 512, 0xc000200000: dense, 0xc000400000: dense - 1, 0xc010200000: 512, 0xc014000000: 512}
	var got []string
	size, err := collapseMappings(strings.NewReader(maps), func(from, length uint64) ([]byte, error) {
		if length > leastMapping || from%hugePage != 0 {
			t.Errorf("%x, %d bytes", from, length)
		}
		v := make([]byte, length/page)
		for i := range v {
			if n := resident[from+uint64(i/512)*hugePage]; i%512 < n {
				v[i] = 1
			}
		}
		return v, nil
	}, func(from, length uint64) error {
		got = append(got, fmt.Sprintf("%x+%x", from, length))
		if from == 0xc010200000 {
			return unix.EAGAIN
		}
		return nil
	})
	want := []string{"c000000000+200000", "c000200000+200000", "c010200000+200000", "c014000000+200000"}
	if err != nil || size != 3*hugePage || !slices.Equal(got, want) {
		t.Errorf("%d %v %v, want %v", size, got, err, want)
	}
	all := func(_, length uint64) ([]byte, error) { return slices.Repeat([]byte{1}, int(length/page)), nil }
	if _, err := collapseMappings(strings.NewReader(maps), all, func(uint64, uint64) error { return unix.EINVAL }); !errors.Is(err,
		unix.EINVAL) {
		t.Errorf("an old kernel: %v", err)
	}
	for _, here := range []error{nil, unix.ENOMEM} {
		calls := 0
		if _, err := collapseMappings(strings.NewReader(maps), all, func(uint64, uint64) error {
			if calls++; calls == 2 {
				return here
			}
			return unix.EINVAL
		}); err != nil || calls < 40 {
			t.Errorf("one range with %v: %v after %d calls", here, err, calls)
		}
	}
}

// TestHeapInHugePages joins a real heap.
func TestHeapInHugePages(t *testing.T) {
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(enabled), "[never]") || os.Getpagesize() != 4096 {
		t.Skip("no transparent huge pages here")
	}
	before := anonHuge(t)
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = byte(i)
	}
	size, err := joinHeap(collapsePages)
	if errors.Is(err, unix.EINVAL) {
		t.Skip("the kernel is older than 6.1")
	}
	if err != nil || size < 32<<20 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	if after := anonHuge(t); after < 32<<20 || after < before {
		t.Errorf("%d bytes in huge pages, %d before", after, before)
	}
	for i := range block {
		if block[i] != byte(i) {
			t.Fatalf("byte %d is %d", i, block[i])
		}
	}
}

// anonHuge returns the bytes of this process in huge pages.
func anonHuge(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "AnonHugePages:"); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n << 10
}

func TestRestAfterJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		refused := errors.New("refused")
		slow := pauseAfter(ctx, func(_, _ uint64) error {
			<-time.After(2 * time.Millisecond)
			return refused
		})
		began := time.Now()
		if err := slow(0, hugePage); !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
		if d := time.Since(began); d != 8*time.Millisecond {
			t.Errorf("%v for a page of 2 ms", d)
		}
		cancel()
		began = time.Now()
		_ = slow(0, hugePage)
		if d := time.Since(began); d != 2*time.Millisecond {
			t.Errorf("%v after the program is to end", d)
		}
	})
}
