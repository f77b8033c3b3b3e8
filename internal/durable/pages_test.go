package durable

import (
	"crypto/rand"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The note that is renewed by pages is the note of the whole file, whatever was written, cut off and appended; and what
// changed besides is noticed.
func TestPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	text := func(n int) []byte {
		raw := make([]byte, n)
		if _, err := rand.Read(raw); err != nil {
			t.Fatal(err)
		}
		return raw
	}
	raw := text(9*PageSize + 100)
	at := time.Now().Add(-time.Hour)
	write := func() error {
		at = at.Add(time.Second)
		return errors.Join(os.WriteFile(path, raw, 0o600), os.Chtimes(path, at, at))
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	p := NewPages(path)
	if err := errors.Join(p.NoteClosed(), p.Check(nowhere)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		pages  map[int64]bool
		change func()
	}{
		{"nothing", nil, func() {}},
		{"two pages", map[int64]bool{0: true, 7: true}, func() { copy(raw, text(10)); copy(raw[7*PageSize+4000:], text(96)) }},
		{"appended", map[int64]bool{9: true}, func() { raw = append(raw[:9*PageSize], text(3*PageSize)...) }},
		{"cut off", map[int64]bool{11: true, 3: true}, func() { raw = raw[:4*PageSize+5]; copy(raw[3*PageSize:], text(9)) }},
		{"empty", nil, func() { raw = nil }},
		{"written again", nil, func() { raw = text(PageSize) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := p.Change(c.pages, func() error { c.change(); return write() }); err != nil {
				t.Fatal(err)
			}
			n, err := p.readPages(nil)
			if want := crc32.Checksum(raw, castagnoli); err != nil || n.Sum != want || n.Size != int64(len(raw)) {
				t.Errorf("%+v, %v, want %d bytes of checksum %d", n, err, len(raw), want)
			}
			if err := NewPages(path).Check(nowhere); err != nil {
				t.Error(err)
			}
		})
	}

	raw[100] ^= 1 // on the disk, while the file is in use: no page of it was written
	if err := errors.Join(os.WriteFile(path, raw, 0o600), os.Chtimes(path, at, at)); err != nil {
		t.Fatal(err)
	}
	if err := p.Change(nil, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	var changed *ChangedError
	if err := NewPages(path).Check(nowhere); !errors.As(err, &changed) {
		t.Errorf("a bit that nobody wrote: %v", err)
	}

	failed := errors.New("the disk is full")
	raw[100] ^= 1
	if err := p.Change(map[int64]bool{0: true}, func() error { return errors.Join(write(), failed) }); !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
	if err := NewPages(path).Check(nowhere); err != nil {
		t.Errorf("a part was written: %v", err)
	}
	raw = text(3 * PageSize) // by another program
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(NewPages(path).Check(nowhere), p.Change(nil, func() error { return nil }), NewPages(path).Check(nowhere)); err != nil {
		t.Errorf("after another program: %v", err)
	}
}

// The pages that changed are named, by parts where the file is large.
func TestChangedPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, c := range []struct {
		size, at int64
		want     []int64
	}{
		{9*PageSize + 10, 3*PageSize + 5, []int64{3}},
		{9*PageSize + 10, 9*PageSize + 5, []int64{9}},
		{9 * PageSize, 9*PageSize - 1, []int64{8}},
		{maxParts*PageSize + PageSize, 5 * PageSize, []int64{4, 5}},
		{maxParts*PageSize + PageSize, maxParts * PageSize, []int64{maxParts}},
	} {
		raw := make([]byte, c.size)
		if _, err := rand.Read(raw); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Hour)
		write := func() error { return errors.Join(os.WriteFile(path, raw, 0o600), os.Chtimes(path, at, at)) }
		if err := errors.Join(write(), NewPages(path).NoteClosed()); err != nil {
			t.Fatal(err)
		}
		raw[c.at] ^= 8
		if err := write(); err != nil {
			t.Fatal(err)
		}
		var changed *ChangedError
		if err := NewPages(path).Check(nowhere); !errors.As(err, &changed) {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(changed.Pages)); !slices.Equal(got, c.want) {
			t.Errorf("byte %d of %d: pages %v, want %v", c.at, c.size, got, c.want)
		}
	}
}
