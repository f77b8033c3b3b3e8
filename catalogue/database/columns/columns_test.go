package columns

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// naive computes the result from all rows, one by one.
func naive(rows map[int64]Row, q *Query) (keys []int64, total int) {
	for key, r := range rows {
		ok := true
		for _, w := range q.Words {
			s := r.Words[w.Column]
			ok = ok && (slices.Contains(w.Values, s) || (w.Match != nil && w.Match(s)))
		}
		for _, x := range q.Ranges {
			ok = ok && r.Numbers[x.Column] >= x.Low && r.Numbers[x.Column] <= x.High
		}
		if len(q.Names) > 0 {
			ok = ok && slices.ContainsFunc(r.Names, func(n string) bool { return slices.Contains(q.Names, n) })
		}
		if ok {
			keys = append(keys, key)
		}
	}
	text := func(names []string) string {
		raw, _ := json.Marshal(append([]string{}, names...))
		return string(raw)
	}
	slices.SortFunc(keys, func(a, b int64) int {
		x, y := rows[a], rows[b]
		var d int
		switch q.By {
		case ByNumber:
			v, w := x.Numbers[q.Column], y.Numbers[q.Column]
			d = cmp.Compare(v, w) // NaN is the smallest here
			if math.IsNaN(v) != math.IsNaN(w) && !q.Down {
				d = -d
			}
		case ByWord:
			d = strings.Compare(x.Words[q.Column], y.Words[q.Column])
		case ByID:
			d = strings.Compare(x.ID, y.ID)
		case ByNames:
			d = strings.Compare(text(x.Names), text(y.Names))
		}
		if d == 0 && q.Then >= 0 {
			d = cmp.Compare(x.Numbers[q.Then], y.Numbers[q.Then])
		}
		if d == 0 {
			d = cmp.Compare(a, b)
		}
		if q.Down {
			return -d
		}
		return d
	})
	total = len(keys)
	keys = keys[min(q.Offset, len(keys)):]
	if q.Limit > 0 {
		keys = keys[:min(q.Limit, len(keys))]
	}
	return keys, total
}

var figuresOf = []float64{math.NaN(), 0, 1, -1, 0.1, 2, 255, 256, 65535, 1e6, 4294967295, 1 << 53, 1.5, -0.25, math.Inf(1), math.Inf(-1), 1e300, math.Copysign(0, -1)}

func drawRow(t *rapid.T, key int64) Row {
	names := []string{"n1", "n1x", "n2", "a<b", "", "é", "n10", "node-0001"}
	return Row{
		Key: key, ID: rapid.SampledFrom([]string{"", "a", "slurm/1", "slurm/10", "slurm/2", "slurm/100000001", "slurm/100000002", "unit/\x00", "slurm", "slurmx/1", "slurm/", "slur", "/", "//a"}).Draw(t, "id"),
		Words:   []string{rapid.SampledFrom([]string{"", "alice", "bob", "abcdefgh1", "abcdefgh2", "abcdefgh"}).Draw(t, "w"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "v")},
		Names:   rapid.SliceOfN(rapid.SampledFrom(names), 0, 3).Draw(t, "names"),
		Numbers: []float64{rapid.SampledFrom(figuresOf).Draw(t, "f"), rapid.Float64().Draw(t, "g"), float64(rapid.IntRange(0, 3).Draw(t, "h"))},
	}
}

func drawQuery(t *rapid.T) *Query {
	q := &Query{
		By: rapid.SampledFrom([]SortKind{ByNumber, ByWord, ByID, ByNames}).Draw(t, "by"), Down: rapid.Bool().Draw(t, "down"),
		Then:   rapid.IntRange(-1, 2).Draw(t, "then"),
		Offset: rapid.IntRange(0, 12).Draw(t, "offset"), Limit: rapid.IntRange(0, 12).Draw(t, "limit"),
	}
	q.Column = rapid.IntRange(0, map[SortKind]int{ByNumber: 2, ByWord: 1}[q.By]).Draw(t, "column")
	if rapid.Bool().Draw(t, "words") {
		q.Words = append(q.Words, Words{Column: 0, Values: []string{"alice", "nobody", "abcdefgh"}})
	}
	if rapid.Bool().Draw(t, "match") {
		q.Words = append(q.Words, Words{Column: 0, Match: func(s string) bool { return strings.HasPrefix(s, "a") }})
	}
	if rapid.Bool().Draw(t, "nodes") {
		q.Names = []string{"n1", "none", "node-0001"}
	}
	if rapid.Bool().Draw(t, "range") {
		q.Ranges = append(q.Ranges, Range{0, rapid.SampledFrom(figuresOf[1:]).Draw(t, "low"), rapid.SampledFrom(figuresOf[1:]).Draw(t, "high")})
	}
	return q
}

func TestAgainstRowsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, rows, top := New(2, 3), map[int64]Row{}, int64(0)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			var changes []Change
			for range rapid.IntRange(0, 25).Draw(t, "changes") {
				have := slices.Sorted(maps.Keys(rows))
				switch k := rapid.IntRange(0, 9).Draw(t, "what"); {
				case k < 3 && len(have) > 0:
					key := rapid.SampledFrom(have).Draw(t, "gone")
					delete(rows, key)
					changes = append(changes, Change{Row: Row{Key: key}, Delete: true})
				case k < 5 && len(have) > 0:
					r := drawRow(t, rapid.SampledFrom(have).Draw(t, "again"))
					rows[r.Key] = r
					changes = append(changes, Change{Row: r})
				default: // like SQLite's choice of keys
					top = 0
					if len(have) > 0 {
						top = have[len(have)-1]
					}
					r := drawRow(t, top+int64(rapid.IntRange(1, 3).Draw(t, "step")))
					rows[r.Key] = r
					changes = append(changes, Change{Row: r})
				}
			}
			if err := table.Apply(changes); err != nil {
				t.Fatal(err)
			}
			if table.Len() != len(rows) {
				t.Fatalf("%d rows, want %d", table.Len(), len(rows))
			}
			for range 5 {
				check(t, table, rows, drawQuery(t))
			}
		}
	})
}

func check(t rapid.TB, table *Table, rows map[int64]Row, q *Query) {
	t.Helper()
	got, total := table.Select(q)
	want, all := naive(rows, q)
	if total != all || !slices.Equal(got, want) {
		t.Fatalf("%+v:\n%d of %d\n got %v\nwant %v", *q, len(got), total, got, want)
	}
}

// TestManyChunks does the same over rows that need packing.
func TestManyChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	table, rows := New(2, 3), map[int64]Row{}
	row := func(key int64) Row {
		r := Row{Key: key, ID: fmt.Sprintf("%s/%d", []string{"slurm", "slurmy", "unit"}[rng.IntN(3)], rng.IntN(60_000)), Words: []string{fmt.Sprint("u", int(rng.ExpFloat64()*20)), fmt.Sprint("job", rng.IntN(9000))},
			Names: []string{fmt.Sprint("n", rng.IntN(300)), "node-0001", "node-0002"}[:1+rng.IntN(3)], Numbers: []float64{rng.ExpFloat64(), float64(key * 1000), float64(rng.IntN(64))}}
		if rng.IntN(8) == 0 {
			r.Numbers[0] = math.NaN()
		}
		rows[key] = r
		return r
	}
	const n = 5*chunkRows + 77
	for from := int64(0); from < n; from += 1000 {
		var changes []Change
		for key := from; key < min(from+1000, n); key++ {
			changes = append(changes, Change{Row: row(key)})
		}
		if err := table.Apply(changes); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // rows change, also in packed chunks, and are deleted
		var changes []Change
		for range 300 {
			key := rng.Int64N(n)
			if _, there := rows[key]; there && rng.IntN(3) == 0 {
				delete(rows, key)
				changes = append(changes, Change{Row: Row{Key: key}, Delete: true})
			} else if there {
				changes = append(changes, Change{Row: row(key)})
			}
		}
		if err := table.Apply(changes); err != nil {
			t.Fatal(err)
		}
	}
	if b := table.Bytes() / len(rows); b > 120 {
		t.Errorf("%d bytes a row of 3 numbers, 2 words and a list", b)
	}
	for i := range 60 {
		q := &Query{By: SortKind(i % 4), Then: i%3 - 1, Down: i%5 < 2, Offset: []int{0, 30, 9000}[i%3], Limit: []int{100, 1, 0, 5000}[i%4]}
		if q.By == ByNumber {
			q.Column = i / 4 % 3
		}
		if q.By == ByWord {
			q.Column = i / 4 % 2
		}
		if i%2 == 0 {
			q.Words = []Words{{Column: 0, Values: []string{"u1", "u7"}}}
		}
		if i%7 == 0 {
			q.Ranges = []Range{{2, 3, 40}, {1, 1e6, math.Inf(1)}}
		}
		if i%6 == 0 {
			q.Names = []string{"n7", "n8", "n100"}
		}
		check(t, table, rows, q)
	}
	for key := int64(n - 1); key > n-2*chunkRows; key-- { // the newest are deleted, and their keys are reused
		if err := table.Apply([]Change{{Row: Row{Key: key}, Delete: true}}); err != nil {
			t.Fatal(err)
		}
		delete(rows, key)
	}
	newest := slices.Max(slices.Collect(maps.Keys(rows)))
	if err := table.Apply([]Change{{Row: row(newest + 1)}}); err != nil {
		t.Fatal(err)
	}
	check(t, table, rows, &Query{Then: -1, Down: true, Limit: 50})
	if err := table.Apply([]Change{{Row: row(newest + 9)}, {Row: row(newest + 5)}}); !errors.Is(err, ErrOrder) {
		t.Errorf("a key out of order: %v", err)
	}
}

func TestPackGivesBackWhatItTook(t *testing.T) {
	buf := make([]float64, chunkRows)
	for _, c := range []struct {
		name string
		form packForm
		of   func(i int) float64
	}{
		{"nothing known", same, func(int) float64 { return math.NaN() }},
		{"always the same", same, func(int) float64 { return 0.1 }},
		{"few whole numbers", off8, func(i int) float64 { return float64(i%200) + 1e12 }},
		{"few, some not known", off8, func(i int) float64 { return []float64{math.NaN(), 1, 2}[i%3] }},
		{"whole numbers", off16, func(i int) float64 { return float64(i*7) - 50 }},
		{"times of days", off32, func(i int) float64 { return 1.7e12 + float64(i)*100_003 }},
		{"pages of memory", single, func(i int) float64 { return float64(i) * 4096 * 1001 }},
		{"halves, and no end", single, func(i int) float64 { return []float64{0.5, math.Inf(1), math.NaN()}[i%3] }},
		{"any", double, func(i int) float64 { return math.Sqrt(float64(i)) }},
		{"whole and far", double, func(i int) float64 { return float64(i) + []float64{0, 1 << 52}[i%2] }},
	} {
		p := emptyPack()
		for i := range chunkRows {
			p.setValue(i, c.of(i))
		}
		p.shrink(buf)
		if p.form != c.form {
			t.Errorf("%s: form %d, want %d", c.name, p.form, c.form)
		}
		for i, v := range p.values(buf) {
			if !sameValue(v, c.of(i)) || !sameValue(p.value(i), v) {
				t.Fatalf("%s: %g at %d, want %g", c.name, v, i, c.of(i))
			}
		}
		for _, v := range figuresOf { // and accepts any other afterwards
			q := p
			q.u8, q.u16, q.u32, q.f32, q.f64 = slices.Clone(p.u8), slices.Clone(p.u16), slices.Clone(p.u32), slices.Clone(p.f32), slices.Clone(p.f64)
			q.setValue(5, v)
			if got := q.value(5); !sameValue(got, v) || !sameValue(q.value(6), c.of(6)) {
				t.Errorf("%s: %g for %g, %g beside it", c.name, got, v, q.value(6))
			}
		}
	}
}

// TestSelectWhileRowsChange: each result is from the table before a change or after it, never in between.
func TestSelectWhileRowsChange(t *testing.T) {
	table := New(1, 1)
	put := func(v float64) {
		changes := make([]Change, 3*chunkRows)
		for i := range changes {
			changes[i].Row = Row{Key: int64(i), ID: "x", Words: []string{"w"}, Numbers: []float64{v + float64(i%2)/4}}
		}
		if err := table.Apply(changes); err != nil {
			t.Error(err)
		}
	}
	put(0)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 30 {
				keys, total := table.Select(&Query{Then: -1, Down: true, Limit: 10})
				if total != 3*chunkRows || len(keys) != 10 || keys[0]%2 != 1 {
					t.Errorf("%d rows, first %v", total, keys)
				}
			}
		})
	}
	for v := range 10 {
		put(float64(v))
	}
	wg.Wait()
}

func BenchmarkSelect(b *testing.B) {
	const n = 1_000_000
	rng := rand.New(rand.NewPCG(1, 1))
	table := New(2, 4)
	for from := 0; from < n; from += chunkRows {
		var changes []Change
		for key := from; key < min(from+chunkRows, n); key++ {
			changes = append(changes, Change{Row: Row{Key: int64(key), ID: fmt.Sprint("slurm/", key), Words: []string{fmt.Sprint("u", int(rng.ExpFloat64()*40)), fmt.Sprint("job-", rng.IntN(50_000))},
				Names: []string{fmt.Sprint("n", rng.IntN(500))}, Numbers: []float64{rng.ExpFloat64(), float64(key * 1000), float64(rng.IntN(64)), math.NaN()}}})
		}
		if err := table.Apply(changes); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("%d bytes a row", table.Bytes()/n)
	for _, q := range []struct {
		name string
		q    Query
	}{
		{"number", Query{Then: -1, Down: true, Limit: 100}},
		{"nothing-known", Query{Column: 3, Then: -1, Down: true, Limit: 100}},
		{"small-number", Query{Column: 2, Then: -1, Limit: 100}},
		{"id", Query{By: ByID, Then: -1, Down: true, Limit: 100}},
		{"name", Query{By: ByWord, Column: 1, Then: -1, Limit: 100}},
		{"owner", Query{By: ByWord, Then: 1, Down: true, Limit: 100}},
		{"nodes", Query{By: ByNames, Then: -1, Limit: 100}},
		{"owner-and-range-by-nodes", Query{Words: []Words{{Values: []string{"u0"}}}, Ranges: []Range{{1, 1e8, 9e8}}, By: ByNames, Then: -1, Limit: 100}},
		{"names-by-number", Query{Words: []Words{{Column: 1, Match: func(s string) bool { return strings.Contains(s, "42") }}}, Then: -1, Limit: 100}},
		{"half-way", Query{Then: -1, Offset: n / 2, Limit: 100}},
		{"all", Query{Then: -1}},
	} {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Select(&q.q)
			}
		})
	}
}

// TestIDsThatBeginInManyWays: ids with more prefixes than are distinguished still order.
func TestIDsThatBeginInManyWays(t *testing.T) {
	table, rows := New(0, 0), map[int64]Row{}
	var changes []Change
	for key := range int64(600) {
		rows[key] = Row{Key: key, ID: fmt.Sprintf("k%d/%d", key*7%311, key)}
		changes = append(changes, Change{Row: rows[key]})
		if key%100 == 99 {
			if err := table.Apply(changes); err != nil {
				t.Fatal(err)
			}
			changes = nil
			check(t, table, rows, &Query{By: ByID, Then: -1, Down: key%200 == 99, Limit: 70})
		}
	}
}
