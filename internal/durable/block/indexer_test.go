package block

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
)

// TestIndexOfDatabase: an index is, byte by byte, the one that the database writes.
func TestIndexOfDatabase(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 5, 3000} {
		var list []labels.Labels
		for i := range n {
			b := labels.NewBuilder(labels.FromStrings("__name__", fmt.Sprint("m", rng.IntN(9)), "n", fmt.Sprint(i)))
			for range rng.IntN(4) {
				b.Set(fmt.Sprint("l", rng.IntN(5)), fmt.Sprint(rng.IntN(40)))
			}
			if i%7 == 0 {
				b.Set("Node", "node\xffé")
			}
			list = append(list, b.Labels())
		}
		slices.SortFunc(list, labels.Compare)
		words := map[string]bool{"": true}
		for _, l := range list {
			l.Range(func(x labels.Label) { words[x.Name], words[x.Value] = true, true })
		}
		dir := t.TempDir()
		x := &indexWriter{places: map[labels.Label]uint32{}}
		w, err := index.NewWriter(t.Context(), filepath.Join(dir, "theirs"))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range slices.Sorted(maps.Keys(words)) {
			if err := w.AddSymbol(word); err != nil {
				t.Fatal(err)
			}
		}
		ref, at := chunks.ChunkRef(8), int64(-5000)
		for i, l := range list {
			var of []chunks.Meta
			for range rng.IntN(4) {
				ref, at = ref+chunks.ChunkRef(rng.IntN(500)), at+int64(1+rng.IntN(1_000_000))
				of = append(of, chunks.Meta{Ref: ref, MinTime: at, MaxTime: at + int64(rng.IntN(900))})
				at += 1000
			}
			if err := x.addSeries(l, of); err != nil {
				t.Fatal(err)
			}
			if err := w.AddSeries(storage.SeriesRef(i), l, of...); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.writeFile(filepath.Join(dir, "ours")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		ours, err := os.ReadFile(filepath.Join(dir, "ours"))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join(dir, "theirs"))
		if err != nil || !bytes.Equal(ours, theirs) {
			t.Errorf("%d series: %d bytes, want %d (%v)", n, len(ours), len(theirs), err)
		}
	}
}

// TestIndexRefusesDisorder: series and chunks that a reader would miss are no index.
func TestIndexRefusesDisorder(t *testing.T) {
	a, b := labels.FromStrings("a", "1"), labels.FromStrings("a", "2")
	x := &indexWriter{places: map[labels.Label]uint32{}}
	if err := x.addSeries(b, nil); err != nil {
		t.Fatal(err)
	}
	for _, l := range []labels.Labels{a, b} {
		if x.addSeries(l, nil) == nil {
			t.Errorf("%s is taken after %s", l, b)
		}
	}
	c := labels.FromStrings("a", "3")
	for _, list := range [][]chunks.Meta{{{MinTime: 2, MaxTime: 1}}, {{MaxTime: 5}, {MinTime: 5, MaxTime: 6}}, {{Ref: 9}, {Ref: 8,
		MinTime: 1, MaxTime: 1}}} {
		if x.addSeries(c, list) == nil {
			t.Errorf("chunks %v are taken", list)
		}
	}
}

// TestWhole: a block that is read as a whole has the series, chunks and lists that the database reads; its labels outlive the reader.
func TestWhole(t *testing.T) {
	dir := made(t, 300)
	b, err := promtsdb.OpenBlock(slog.New(slog.DiscardHandler), dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	theirs, err := b.Index()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Whole{b, dir}.Index()
	if err != nil {
		t.Fatal(err)
	}
	var kept []labels.Labels
	var want []string
	refs, err := ours.Postings(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	var builder labels.ScratchBuilder
	for refs.Next() {
		var a, o []chunks.Meta
		if err := theirs.Series(refs.At(), &builder, &a); err != nil {
			t.Fatal(err)
		}
		l := builder.Labels()
		if err := ours.Series(refs.At(), &builder, &o); err != nil || !labels.Equal(l, builder.Labels()) || !slices.Equal(a, o) {
			t.Fatalf("%s %v, want %s %v (%v)", builder.Labels(), o, l, a, err)
		}
		kept, want = append(kept, builder.Labels()), append(want, l.String())
	}
	if err := errors.Join(refs.Err(), ours.Close(), theirs.Close()); err != nil || len(kept) != 300 {
		t.Fatal(len(kept), err)
	}
	for i, l := range kept {
		if l.String() != want[i] {
			t.Errorf("%s once the reader is closed, want %s", l, want[i])
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "index"))
	if err == nil {
		raw[len(raw)-20] ^= 1
		err = os.WriteFile(filepath.Join(dir, "index"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Whole{b, dir}).Index(); err == nil {
		t.Error("a damaged index is read")
	}
}
