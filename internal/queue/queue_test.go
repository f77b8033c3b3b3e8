package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func open(t testing.TB, o Options) *Queue {
	t.Helper()
	q, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func put(t testing.TB, q *Queue, s string) {
	t.Helper()
	if err := q.Put([]byte(s)); err != nil {
		t.Fatal(err)
	}
}

func drain(t testing.TB, q *Queue) (out []string) {
	t.Helper()
	for {
		r, err := q.Peek(nil)
		if errors.Is(err, ErrEmpty) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(r.Data))
		if err := q.Done(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordsComeInOrderAndOnce(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Dir: dir, SegmentBytes: 100})
	var want []string
	for i := range 50 {
		s := fmt.Sprintf("record %d", i)
		want = append(want, s)
		put(t, q, s)
	}
	for range 10 { // reading without Done returns the same again
		r, err := q.Peek(nil)
		if err != nil || string(r.Data) != want[0] {
			t.Fatalf("%q, %v", r.Data, err)
		}
	}
	for i := range 20 {
		r, _ := q.Peek(nil)
		if string(r.Data) != want[i] {
			t.Fatalf("%q, want %q", r.Data, want[i])
		}
		if err := q.Done(r); err != nil {
			t.Fatal(err)
		}
	}
	if s := q.Stats(); s.Records != 30 || s.Oldest.IsZero() {
		t.Errorf("%+v", s)
	}
	q.Close()
	q = open(t, Options{Dir: dir, SegmentBytes: 100})
	if got := drain(t, q); strings.Join(got, ",") != strings.Join(want[20:], ",") {
		t.Errorf("after opening again: %q", got)
	}
	if s := q.Stats(); s.Records != 0 || s.Bytes != 0 || !s.Oldest.IsZero() {
		t.Errorf("%+v", s)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix)); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
	put(t, q, "more")
	q.Close()
	q = open(t, Options{Dir: dir})
	if got := drain(t, q); len(got) != 1 || got[0] != "more" {
		t.Errorf("%q", got)
	}
}

func TestFullQueueDropsTheOldest(t *testing.T) {
	q := open(t, Options{Dir: t.TempDir(), MaxBytes: 2000, SegmentBytes: 300})
	for i := range 100 {
		put(t, q, fmt.Sprintf("%050d", i))
	}
	s := q.Stats()
	if s.Bytes > 2000 || s.Dropped == 0 || int(s.Dropped)+s.Records != 100 {
		t.Errorf("%+v", s)
	}
	got := drain(t, q)
	if len(got) != s.Records || got[len(got)-1] != fmt.Sprintf("%050d", 99) || got[0] != fmt.Sprintf("%050d", 100-len(got)) {
		t.Errorf("%d records, first %s", len(got), got[0])
	}
	if err := q.Put(make([]byte, 3000)); !errors.Is(err, ErrTooBig) {
		t.Errorf("%v", err)
	}
	put(t, q, strings.Repeat("x", 2000-headerBytes-int(fileHeaderBytes))) // as large as the queue
	if got := drain(t, q); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
}

func TestDoneOfADroppedRecordTakesNoOther(t *testing.T) {
	q := open(t, Options{Dir: t.TempDir(), MaxBytes: 500, SegmentBytes: 100})
	put(t, q, "first")
	r, err := q.Peek(nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		put(t, q, strings.Repeat("y", 60))
	}
	n := q.Stats().Records
	if err := q.Done(r); err != nil || q.Stats().Records != n {
		t.Errorf("%v, %d records, want %d", err, q.Stats().Records, n)
	}
}

func TestOldRecordsExpire(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	q := open(t, Options{Dir: t.TempDir(), MaxAge: time.Hour, SegmentBytes: 60, Clock: func() time.Time { return now }})
	put(t, q, strings.Repeat("a", 50))
	put(t, q, strings.Repeat("b", 50))
	now = now.Add(2 * time.Hour)
	put(t, q, strings.Repeat("c", 50))
	if got := drain(t, q); len(got) != 1 || got[0][0] != 'c' {
		t.Errorf("%q", got)
	}
	if s := q.Stats(); s.Expired != 2 {
		t.Errorf("%+v", s)
	}
}

func TestSecondOpenerIsTold(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Dir: dir})
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
	q.Close()
	open(t, Options{Dir: dir})
	if err := q.Put([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

// written creates a queue of ten records in one segment, and returns the segment's name.
func written(t *testing.T, dir string) string {
	q := open(t, Options{Dir: dir})
	for i := range 10 {
		put(t, q, fmt.Sprintf("record %d", i))
	}
	q.Close()
	names, _ := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if len(names) != 1 {
		t.Fatal(names)
	}
	return names[0]
}

func TestDamage(t *testing.T) {
	const record = headerBytes + int64(len("record 0"))
	flip := func(name string, at int64) error {
		raw, err := os.ReadFile(name)
		if err == nil {
			raw[at] ^= 0x10
			err = os.WriteFile(name, raw, 0o600)
		}
		return err
	}
	for _, c := range []struct {
		name string
		do   func(segment string) error
		want int // records left
	}{
		{"torn in the last record", func(s string) error { return os.Truncate(s, fileHeaderBytes+10*record-1) }, 9},
		{"torn in a header", func(s string) error { return os.Truncate(s, fileHeaderBytes+9*record+3) }, 9},
		{"zeros at the end", func(s string) error { return os.Truncate(s, fileHeaderBytes+10*record+4096) }, 10},
		{"a bit of the fifth record", func(s string) error { return flip(s, fileHeaderBytes+4*record+20) }, 4},
		{"the length of the fifth record", func(s string) error { return flip(s, fileHeaderBytes+4*record+2) }, 4},
		{"the time of the fifth record", func(s string) error { return flip(s, fileHeaderBytes+4*record+9) }, 4},
		{"the magic", func(s string) error { return flip(s, 1) }, 0},
		{"an empty file", func(s string) error { return os.Truncate(s, 0) }, 0},
		{"the place", func(s string) error { return flip(filepath.Join(filepath.Dir(s), "place"), 5) }, 10},
		{"no place", func(s string) error { return os.Remove(filepath.Join(filepath.Dir(s), "place")) }, 10},
		{"a file of somebody else", func(s string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(s), "readme"+segmentSuffix), []byte("hi"), 0o600)
		}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.do(written(t, dir)); err != nil {
				t.Fatal(err)
			}
			q := open(t, Options{Dir: dir})
			put(t, q, "after")
			got := drain(t, q)
			if len(got) != c.want+1 || got[c.want] != "after" {
				t.Fatalf("%d records, want %d: %q", len(got)-1, c.want, got)
			}
			for i := range c.want {
				if got[i] != fmt.Sprintf("record %d", i) {
					t.Errorf("record %d is %q", i, got[i])
				}
			}
		})
	}
}

// Damage that occurs while the queue is open costs its segment, not the queue.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Dir: dir, SegmentBytes: 60})
	for i := range 6 { // two to a segment
		put(t, q, fmt.Sprintf("%030d", i))
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err := os.Truncate(names[0], fileHeaderBytes+20); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, q); len(got) != 4 || got[0] != fmt.Sprintf("%030d", 2) {
		t.Errorf("%q", got)
	}
	if s := q.Stats(); s.Damaged == 0 || s.Records != 0 {
		t.Errorf("%+v", s)
	}
}

// Under any operations, and reopened at any moment, a queue behaves like a list.
func TestLikeAList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		o := Options{Dir: dir, SegmentBytes: int64(rapid.IntRange(20, 200).Draw(rt, "segment"))}
		q, err := Open(o)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { q.Close() }()
		var list []string
		n := 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"put", "put", "take", "open"}).Draw(rt, "step") {
			case "put":
				s := fmt.Sprintf("%0*d", rapid.IntRange(1, 80).Draw(rt, "len"), n)
				n++
				if err := q.Put([]byte(s)); err != nil {
					rt.Fatal(err)
				}
				list = append(list, s)
			case "take":
				r, err := q.Peek(nil)
				if len(list) == 0 {
					if !errors.Is(err, ErrEmpty) {
						rt.Fatalf("empty queue gave %q, %v", r.Data, err)
					}
					continue
				}
				if err != nil || string(r.Data) != list[0] {
					rt.Fatalf("got %q, %v; want %q", r.Data, err, list[0])
				}
				if err := q.Done(r); err != nil {
					rt.Fatal(err)
				}
				list = list[1:]
			case "open":
				q.Close()
				if q, err = Open(o); err != nil {
					rt.Fatal(err)
				}
			}
			if s := q.Stats(); s.Records != len(list) {
				rt.Fatalf("%d records, want %d", s.Records, len(list))
			}
		}
	})
}

// Bytes of a segment that a disk may return: opening never fails, and only records with a
// valid checksum are returned.
func FuzzSegment(f *testing.F) {
	q := open(f, Options{Dir: f.TempDir()})
	put(f, q, "a record")
	put(f, q, "another")
	raw, err := os.ReadFile(q.lastSegment().name)
	if err != nil {
		f.Fatal(err)
	}
	place := make([]byte, positionBytes)
	f.Add(raw, place)
	f.Add(raw[:len(raw)-3], []byte(nil))
	f.Add(binary.LittleEndian.AppendUint32([]byte(fileMagic), 0xffffffff), bytes.Repeat([]byte{0xff}, positionBytes))
	f.Fuzz(func(t *testing.T, segment, place []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, segmentName(3)), segment, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "place"), place, 0o600); err != nil {
			t.Fatal(err)
		}
		q := open(t, Options{Dir: dir, MaxAge: -1})
		put(t, q, "last")
		got := drain(t, q)
		if len(got) == 0 || got[len(got)-1] != "last" {
			t.Fatalf("the record put after opening is missing: %q", got)
		}
	})
}

func BenchmarkPutPeekDone(b *testing.B) {
	q := open(b, Options{Dir: b.TempDir()})
	data := make([]byte, 64<<10)
	var buf []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := q.Put(data); err != nil {
			b.Fatal(err)
		}
		r, err := q.Peek(buf)
		if err != nil {
			b.Fatal(err)
		}
		buf = r.Data
		if err := q.Done(r); err != nil {
			b.Fatal(err)
		}
	}
}
