package storetest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
)

// Catalogue runs the suite. open returns an empty catalogue, which the suite closes.
func Catalogue(t *testing.T, open func(testing.TB) store.Catalogue) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Catalogue)
	}{
		{"RoundTrip", testCatalogueRoundTrip},
		{"Identity", testCatalogueIdentity},
		{"Waiting", testCatalogueWaiting},
		{"Filters", testCatalogueFilters},
		{"Replace", testCatalogueReplace},
		{"Family", testCatalogueFamily},
		{"Shares", testCatalogueShares},
		{"Paging", testCataloguePaging},
		{"Watermark", testCatalogueWatermark},
		{"Drop", testCatalogueDrop},
		{"Hostile", testCatalogueHostile},
		{"UnknownSort", testCatalogueUnknownSort},
		{"SortUnknown", testCatalogueSortUnknown},
		{"Concurrent", testCatalogueConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			cat := open(t)
			c.test(t, cat)
			requireNoError(t, cat.Close())
		})
	}
}

func pointerTo(v float64) *float64 { return &v }

var epoch = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// Row returns a row with every field set, different for each i.
func Row(i int) store.Workload {
	x := float64(i)
	code := i % 3
	start := epoch.Add(time.Duration(i) * time.Minute)
	w := store.Workload{
		Site: "here", ID: fmt.Sprintf("slurm/%d", i), Kind: "slurm", Name: fmt.Sprintf("train-%d", i%7), Owner: fmt.Sprintf("user%d", i%5),
		Account: "physics", Partition: "gpu", Command: "python3", Nodes: []string{fmt.Sprintf("n%d", i%4), fmt.Sprintf("n%d", i%4+1)},
		Start: start, Seen: start.Add(time.Hour), End: start.Add(time.Hour), ExitCode: &code,
		State: []string{"completed", "failed", "pending"}[i%3], Reason: fmt.Sprintf("reason %d", i%2), Submit: start.Add(-time.Minute),
		EndedBy: []string{"", "user", "time_limit"}[i%3], EndedByUser: []string{"", "alice"}[i%2], QOS: fmt.Sprintf("qos%d", i%3),
		Lost: i%5 == 1,
	}
	for k := range w.Row.Len() {
		*w.Row.At(k) = pointerTo(x + float64(k)/10)
	}
	if i%2 == 1 {
		w.Exactness = figure.Degrees{"cpu_seconds": figure.AtLeast, "cores_p95": figure.AtMost}
	}
	return w
}

// formatRow formats a row for comparison. It prints the values behind pointers.
func formatRow(w store.Workload) string {
	var code any
	if w.ExitCode != nil {
		code = *w.ExitCode
	}
	nodes := slices.Sorted(slices.Values(w.Nodes))
	text := fmt.Sprint(w.Site, w.ID, w.Kind, w.Name, w.Owner, w.Account, w.Partition, w.Command, nodes, w.Start.UTC(), w.Seen.UTC(),
		w.End.UTC(), code,
		w.State, w.Reason, w.Submit.UTC(), w.EndedBy, w.EndedByUser, w.QOS, w.Lost)
	for i, f := range figure.InScope(figure.Runs) {
		if v := *w.Row.At(i); v != nil {
			text += fmt.Sprintf(" %s=%g", f.Key, *v)
		}
	}
	return text + fmt.Sprint(" ", w.Exactness)
}

func listWorkloads(t *testing.T, c store.Catalogue, f store.Filter) (rows []store.Workload, total int) {
	t.Helper()
	rows, n, err := c.Workloads(t.Context(), f)
	if err != nil {
		t.Fatalf("%+v: %v", f, err)
	}
	return rows, n
}

func testCatalogueRoundTrip(t *testing.T, c store.Catalogue) {
	full := Row(7)
	bare := store.Workload{ID: "unit/cron.service", Kind: "unit", Name: "cron.service", Owner: "root", Start: epoch,
		Seen: epoch.Add(time.Minute)}
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{full, bare}))
	for _, want := range []store.Workload{full, bare} {
		rows, n := listWorkloads(t, c, store.Filter{IDs: []string{want.ID}})
		if n != 1 || len(rows) != 1 || formatRow(rows[0]) != formatRow(want) {
			t.Errorf("%d rows\n got %s\nwant %s", n, formatRow(rows[0]), formatRow(want))
		}
	}
	rows, _ := listWorkloads(t, c, store.Filter{IDs: []string{bare.ID}})
	if !rows[0].End.IsZero() || rows[0].CPUSeconds != nil || rows[0].ExitCode != nil {
		t.Errorf("what was not measured came back as a figure: %s", formatRow(rows[0]))
	}
	requireNoError(t, c.Upsert(t.Context(), nil))
}

// testCatalogueIdentity tests that job ids may repeat, on other sites and at other times.
func testCatalogueIdentity(t *testing.T, c store.Catalogue) {
	a, b, d := Row(1), Row(1), Row(1)
	b.Site = "there"
	d.Start, d.Seen, d.End = a.Start.Add(48*time.Hour), a.Seen.Add(48*time.Hour), time.Time{}
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{a, b, d}))
	if rows, n := listWorkloads(t, c, store.Filter{IDs: []string{a.ID}}); n != 3 || len(rows) != 3 {
		t.Errorf("%d rows, want 3", n)
	}
}

// testCatalogueWaiting: a pending workload is not running and has no wall time, and its row moves when it starts.
func testCatalogueWaiting(t *testing.T, c store.Catalogue) {
	yes, no := true, false
	w := Row(1)
	w.State, w.Nodes, w.End, w.CPUSeconds = "pending", nil, time.Time{}, nil
	w.Start, w.Submit, w.Seen = epoch, epoch, epoch.Add(time.Hour)
	other := Row(4)
	other.Start, other.Seen, other.End = epoch, epoch.Add(time.Minute), epoch.Add(time.Minute)
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{w, other}))
	rows, n := listWorkloads(t, c, store.Filter{IDs: []string{w.ID}})
	if n != 1 || !rows[0].End.IsZero() || !rows[0].Waits() || !rows[0].Start.Equal(epoch) {
		t.Fatalf("%d rows, %+v", n, rows)
	}
	if _, n := listWorkloads(t, c, store.Filter{Running: &yes}); n != 0 {
		t.Errorf("%d rows run", n)
	}
	if rows, n := listWorkloads(t, c, store.Filter{Running: &no, Sort: "-wall_seconds"}); n != 2 || rows[0].ID != other.ID {
		t.Errorf("%d rows do not run; the longest is %s", n, rows[0].ID)
	}
	begun := Row(1)
	begun.State, begun.Submit, begun.End, begun.Nodes = "running", epoch, time.Time{}, []string{"n9"}
	begun.Start, begun.Seen = epoch.Add(2*time.Hour), epoch.Add(3*time.Hour)
	begun.PreviousStarts = []time.Time{epoch, epoch.Add(time.Second)}
	for range 2 { // a repeated write changes nothing
		requireNoError(t, c.Upsert(t.Context(), []store.Workload{begun}))
		rows, n = listWorkloads(t, c, store.Filter{IDs: []string{w.ID}})
		if n != 1 || !rows[0].Start.Equal(begun.Start) || rows[0].Waits() {
			t.Fatalf("after it began: %d rows, %+v", n, rows)
		}
	}
	if _, n := listWorkloads(t, c, store.Filter{Running: &yes}); n != 1 {
		t.Errorf("%d rows run after one began", n)
	}
	again := begun // the start was corrected
	again.Start, again.PreviousStarts = begun.Start.Add(time.Second), []time.Time{begun.Start}
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{again}))
	if rows, n := listWorkloads(t, c, store.Filter{Nodes: []string{"n9"}}); n != 1 || !rows[0].Start.Equal(again.Start) {
		t.Errorf("after the correction %d rows are on the node", n)
	}
}

// testCatalogueFilters compares every filter with a straightforward computation.
func testCatalogueFilters(t *testing.T, c store.Catalogue) {
	rng := rand.New(rand.NewPCG(1, 2))
	var data []store.Workload
	for i := range 300 {
		w := Row(i)
		w.Kind = []string{"slurm", "session", "unit"}[rng.IntN(3)]
		w.Start = epoch.Add(time.Duration(rng.IntN(10_000)) * time.Minute)
		w.Seen = w.Start.Add(time.Duration(rng.IntN(4000)) * time.Minute)
		w.End = w.Seen
		if rng.IntN(4) == 0 {
			w.End = time.Time{}
		}
		if rng.IntN(5) == 0 {
			w.CPUSeconds = nil
		}
		data = append(data, w)
	}
	requireNoError(t, c.Upsert(t.Context(), data))
	yes, no := true, false
	mid := epoch.Add(5000 * time.Minute)
	filters := []store.Filter{
		{}, {Kinds: []string{"slurm"}}, {Kinds: []string{"slurm", "unit"}}, {IDs: []string{"slurm/7"}},
		{IDs: []string{"slurm/7", "slurm/9", "slurm/none"}}, {IDs: []string{"slurm/3", "slurm/4"}, Kinds: []string{"unit", "session"}},
		{Owners: []string{"user1"}}, {Owners: []string{"user1", "nobody"}},
		{Kinds: []string{"unit"}, Owners: []string{"user2"}, Running: &yes}, {Running: &yes}, {Running: &no}, {Nodes: []string{"n2"}},
		{Nodes: []string{"n0", "n4"}},
		{Name: "train-3"}, {Name: "train-[12]"}, {Name: "*-?"}, {Name: "TRAIN*"}, {MinCPU: 100}, {Since: mid}, {Until: mid},
		{Since: mid, Until: mid.Add(time.Hour)},
		{Since: mid, Until: time.UnixMilli(1 << 53), Within: true}, {Since: epoch, Until: mid.Add(time.Hour), Within: true},
		{Since: mid, Until: mid.Add(48 * time.Hour), Kinds: []string{"session"}, MinCPU: 50, Nodes: []string{"n1"}},
		{Since: epoch.AddDate(1, 0, 0)}, {Until: epoch.AddDate(-1, 0, 0)}, {IDs: []string{"slurm/5"}}, {IDs: []string{"slurm/none"}},
		{Accounts: []string{"physics"}}, {Accounts: []string{"none"}}, {Partitions: []string{"gpu", "cpu"}, Owners: []string{"user1"}},
		{States: []string{"failed"}}, {States: []string{"failed", "pending"}, Running: &no}, {Command: "python*"}, {Command: "R"},
		{Sites: []string{"here"}}, {Sites: []string{"elsewhere"}}, {Sites: []string{"here", "elsewhere"}, Kinds: []string{"unit"}},
	}
	for _, f := range filters {
		for _, sort := range []string{"", "cpu_seconds", "-cpu_seconds", "-start", "end", "-memory_peak_bytes", "name", "-owner",
			"wall_seconds", "-processes", "memory_mean_bytes", "submit", "-state"} {
			f.Sort = sort
			got, n := listWorkloads(t, c, f)
			var want []string
			for _, w := range data {
				if matches(f, w) {
					want = append(want, w.ID)
				}
			}
			var have []string
			for _, w := range got {
				have = append(have, w.ID)
			}
			slices.Sort(want)
			if sorted := slices.Sorted(slices.Values(have)); n != len(want) || !slices.Equal(sorted, want) {
				t.Fatalf("%+v: %d rows, total %d; want %d", f, len(have), n, len(want))
			}
			if !slices.IsSortedFunc(got, orderOf(sort)) {
				t.Errorf("%+v: not in order", f)
			}
		}
	}
}

// testCatalogueShares tests a process group of several users, which is one row that each of these users finds. Without a
// filter, or with all its owners selected, the row has the full amounts. Otherwise it has the amounts of the selected
// owners, and the figures of the group that cannot be divided.
func testCatalogueShares(t *testing.T, c store.Catalogue) {
	shared, own := Row(1), Row(2)
	shared.ID, shared.Kind, shared.Owner, shared.Command = "group/n1/1-1", "group", "root", "bash"
	shared.CPUSeconds, shared.CoresMean, shared.MemoryPeakBytes, shared.ReadBytes = pointerTo(40), pointerTo(4), pointerTo(9), pointerTo(7)
	shared.Shares = map[string]store.Share{"root": {Command: "bash", Amounts: map[string]float64{"cpu_seconds": 10, "io_read_bytes": 7}},
		"user1": {Command: "cc", Amounts: map[string]float64{"cpu_seconds": 30}}}
	own.Owner = "user1"
	other := Row(3)
	other.Owner = "user"
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{shared, own, other}))
	for i := range 2 { // check after the first write and after rewriting the rows
		if rows, n := listWorkloads(t, c, store.Filter{Owners: []string{"user1"}, Sort: "kind"}); n != 2 || len(rows) != 2 {
			t.Errorf("%d rows of %d of user1, want 2", len(rows), n)
		} else if w := rows[0]; w.ID != shared.ID || w.Owner != "user1" || w.Command != "cc" || !w.Partial || len(w.Shares) != 1 ||
			*w.CPUSeconds != 30 ||
			*w.CoresMean != 3 || w.ReadBytes != nil || *w.MemoryPeakBytes != 9 {
			t.Errorf("the share is %s", formatRow(w))
		}
		for _, f := range []store.Filter{{}, {Owners: []string{"root", "user1", "nobody"}}, {IDs: []string{shared.ID}}} {
			rows, _ := listWorkloads(t, c, f)
			if at := slices.IndexFunc(rows, func(w store.Workload) bool { return w.ID == shared.ID }); at < 0 ||
				formatRow(rows[at]) != formatRow(shared) {
				t.Errorf("%+v: the row of several users is not as it was", f)
			}
		}
		if _, n := listWorkloads(t, c, store.Filter{Owners: []string{"root"}, Limit: 1}); n != 1 {
			t.Errorf("%d rows of root", n)
		}
		if _, n := listWorkloads(t, c, store.Filter{Owners: []string{"ser1", "u"}}); n != 0 {
			t.Errorf("%d rows of nobody", n)
		}
		if i == 0 {
			requireNoError(t, c.Upsert(t.Context(), []store.Workload{shared}))
		}
	}
	shared.Shares = nil
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{shared}))
	if rows, n := listWorkloads(t, c, store.Filter{Owners: []string{"user1"}, Limit: 5}); n != 1 || len(rows) != 1 || rows[0].ID != own.ID {
		t.Errorf("%d rows of user1 without a share, want 1", n)
	}
}

// testCatalogueFamily tests that a query for an array or heterogeneous job also finds its members, but no ids that only
// have the same prefix.
func testCatalogueFamily(t *testing.T, c store.Catalogue) {
	var rows []store.Workload
	for i, id := range []string{"slurm/4", "slurm/4_0", "slurm/4_10", "slurm/4+1", "slurm/40", "slurm/40_1", "slurm/4.x", "slurm/4`",
		"slurm/4,", "slurm/3_4", "unit/4_1"} {
		w := Row(i)
		w.ID = id
		rows = append(rows, w)
	}
	requireNoError(t, c.Upsert(t.Context(), rows))
	for _, f := range []struct {
		of   store.Filter
		want []string
	}{
		{store.Filter{Family: "slurm/4"}, []string{"slurm/4", "slurm/4+1", "slurm/4_0", "slurm/4_10"}},
		{store.Filter{Family: "slurm/4", Owners: []string{"user1"}}, []string{"slurm/4_0"}},
		{store.Filter{Family: "slurm/40"}, []string{"slurm/40", "slurm/40_1"}},
		{store.Filter{Family: "slurm/9"}, nil},
	} {
		f.of.Sort = "id"
		got, n := listWorkloads(t, c, f.of)
		var ids []string
		for _, w := range got {
			ids = append(ids, w.ID)
		}
		if !slices.Equal(ids, f.want) || n != len(f.want) {
			t.Errorf("%+v: %v of %d, want %v", f.of, ids, n, f.want)
		}
	}
}

func matches(f store.Filter, w store.Workload) bool {
	in := func(list []string, v ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(v, func(s string) bool { return slices.Contains(list, s) })
	}
	name := true
	if f.Name != "" {
		name, _ = path.Match(f.Name, w.Name)
	}
	return in(f.IDs, w.ID) && in(f.Kinds, w.Kind) && in(f.Owners, w.Owner) && in(f.Nodes, w.Nodes...) && name &&
		in(f.Accounts, w.Account) && in(f.Partitions, w.Partition) && in(f.States, w.State) && in(f.Sites, w.Site) &&
		(f.Command == "" || glob(f.Command, w.Command)) &&
		(f.MinCPU <= 0 || (w.CPUSeconds != nil && *w.CPUSeconds >= f.MinCPU)) && (f.Running == nil || *f.Running == w.End.IsZero()) &&
		(f.Until.IsZero() || w.Start.Before(f.Until)) && (f.Since.IsZero() || w.End.IsZero() || !w.End.Before(f.Since)) &&
		(!f.Within || !w.Start.Before(f.Since) && (f.Until.UnixMilli() == 1<<53 || !w.End.IsZero() && w.End.Before(f.Until)))
}

func glob(pattern, s string) bool {
	ok, _ := path.Match(pattern, s)
	return ok
}

func orderOf(field string) func(a, b store.Workload) int {
	key, down := strings.CutPrefix(field, "-")
	if field == "" {
		key, down = "start", true
	}
	val := func(p *float64) float64 {
		if p == nil && down {
			return math.Inf(-1)
		} else if p == nil {
			return math.Inf(1)
		}
		return *p
	}
	end := func(w store.Workload) time.Time {
		if w.End.IsZero() {
			return epoch.AddDate(1000, 0, 0)
		}
		return w.End
	}
	by := map[string]func(a, b store.Workload) int{
		"submit":            func(a, b store.Workload) int { return a.Submit.Compare(b.Submit) },
		"state":             func(a, b store.Workload) int { return strings.Compare(a.State, b.State) },
		"start":             func(a, b store.Workload) int { return a.Start.Compare(b.Start) },
		"end":               func(a, b store.Workload) int { return end(a).Compare(end(b)) },
		"name":              func(a, b store.Workload) int { return strings.Compare(a.Name, b.Name) },
		"owner":             func(a, b store.Workload) int { return strings.Compare(a.Owner, b.Owner) },
		"cpu_seconds":       func(a, b store.Workload) int { return cmp.Compare(val(a.CPUSeconds), val(b.CPUSeconds)) },
		"processes":         func(a, b store.Workload) int { return cmp.Compare(val(a.Processes), val(b.Processes)) },
		"memory_peak_bytes": func(a, b store.Workload) int { return cmp.Compare(val(a.MemoryPeakBytes), val(b.MemoryPeakBytes)) },
		"wall_seconds":      func(a, b store.Workload) int { return cmp.Compare(a.Seen.Sub(a.Start), b.Seen.Sub(b.Start)) },
		"memory_mean_bytes": func(a, b store.Workload) int { return cmp.Compare(val(a.MemoryMeanBytes), val(b.MemoryMeanBytes)) },
	}[key]
	if down {
		return func(a, b store.Workload) int { return by(b, a) }
	}
	return by
}

// testCatalogueReplace tests that a later row replaces all of the earlier one, including nodes and counts.
func testCatalogueReplace(t *testing.T, c store.Catalogue) {
	w := Row(1)
	w.End = time.Time{}
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{w}))
	w.End, w.Nodes, w.Owner, w.CPUSeconds, w.Kind = w.Seen, []string{"moved"}, "other", nil, "job"
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{w, w}))
	if rows, n := listWorkloads(t, c, store.Filter{}); n != 1 || formatRow(rows[0]) != formatRow(w) {
		t.Errorf("%d rows, %s", n, formatRow(rows[0]))
	}
	yes := true
	for _, f := range []store.Filter{{Nodes: []string{"n1"}}, {Owners: []string{"user1"}}, {Running: &yes}, {Kinds: []string{"slurm"}}} {
		if rows, n := listWorkloads(t, c, f); n != 0 || len(rows) != 0 {
			t.Errorf("%+v still finds the old row", f)
		}
	}
	if _, n := listWorkloads(t, c, store.Filter{Nodes: []string{"moved"}, Owners: []string{"other"}}); n != 1 {
		t.Error("new row is not found by its node")
	}
}

func testCataloguePaging(t *testing.T, c store.Catalogue) {
	var data []store.Workload
	for i := range 25 {
		w := Row(i)
		w.CPUSeconds = pointerTo(float64(i / 5)) // ties
		data = append(data, w)
	}
	requireNoError(t, c.Upsert(t.Context(), data))
	seen := map[string]bool{}
	for off := 0; off < 30; off += 10 {
		rows, n := listWorkloads(t, c, store.Filter{Sort: "-cpu_seconds", Limit: 10, Offset: off})
		if n != 25 || len(rows) != min(10, max(0, 25-off)) {
			t.Errorf("offset %d: %d rows of %d", off, len(rows), n)
		}
		for _, w := range rows {
			if seen[w.ID] {
				t.Errorf("%s is on two pages", w.ID)
			}
			seen[w.ID] = true
		}
	}
	if len(seen) != 25 {
		t.Errorf("pages hold %d rows, want 25", len(seen))
	}
	if rows, _ := listWorkloads(t, c, store.Filter{Offset: 20}); len(rows) != 5 {
		t.Errorf("offset without limit: %d rows", len(rows))
	}
}

func testCatalogueWatermark(t *testing.T, c store.Catalogue) {
	w, err := c.Watermark(t.Context())
	if err != nil || !w.IsZero() {
		t.Errorf("new catalogue: %s %v", w, err)
	}
	requireNoError(t, c.SetWatermark(t.Context(), epoch))
	requireNoError(t, c.SetWatermark(t.Context(), epoch.Add(time.Second)))
	if w, err = c.Watermark(t.Context()); err != nil || !w.Equal(epoch.Add(time.Second)) {
		t.Errorf("got %s %v", w, err)
	}
}

func testCatalogueDrop(t *testing.T, c store.Catalogue) {
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{Row(1), Row(2)}))
	requireNoError(t, c.SetWatermark(t.Context(), epoch))
	requireNoError(t, c.Drop(t.Context()))
	for _, f := range []store.Filter{{}, {Kinds: []string{"slurm"}}, {Nodes: []string{"n1"}}} {
		if rows, n := listWorkloads(t, c, f); n != 0 || len(rows) != 0 {
			t.Errorf("%+v: %d rows after drop", f, n)
		}
	}
	if w, err := c.Watermark(t.Context()); err != nil || !w.IsZero() {
		t.Errorf("watermark after drop: %s %v", w, err)
	}
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{Row(1)}))
	if _, n := listWorkloads(t, c, store.Filter{}); n != 1 {
		t.Error("a dropped catalogue takes no rows")
	}
}

func testCatalogueHostile(t *testing.T, c store.Catalogue) {
	w := Row(1)
	w.Name, w.Owner, w.Nodes = "'; DROP TABLE workloads; -- \x00 \U0001F980", `%_"\`, []string{`["n"]`, "\u202e"}
	requireNoError(t, c.Upsert(t.Context(), []store.Workload{w}))
	for _, f := range []store.Filter{{Owners: []string{w.Owner}}, {Nodes: []string{`["n"]`}}, {IDs: []string{w.ID}}} {
		if rows, n := listWorkloads(t, c, f); n != 1 || formatRow(rows[0]) != formatRow(w) {
			t.Errorf("%+v: %d rows", f, n)
		}
	}
	if _, n := listWorkloads(t, c, store.Filter{Owners: []string{"' OR 1=1 --"}}); n != 0 {
		t.Error("a filter was taken as code")
	}
	if err := c.Upsert(t.Context(), []store.Workload{Row(2), {ID: "no/start"}}); err == nil {
		t.Error("a row without a start was taken")
	}
	if _, n := listWorkloads(t, c, store.Filter{}); n != 1 {
		t.Error("half of a refused batch was kept")
	}
}

func testCatalogueUnknownSort(t *testing.T, c store.Catalogue) {
	for _, s := range []string{"nonsense", "cpu_seconds; DROP TABLE workloads", "-", "--start"} {
		if _, _, err := c.Workloads(t.Context(), store.Filter{Sort: s}); err == nil || !strings.Contains(err.Error(), "cpu_seconds") {
			t.Errorf("%q: %v; want an error that lists the fields", s, err)
		}
	}
}

// testCatalogueSortUnknown: rows with an unknown figure come last, whether the least or the most is first.
func testCatalogueSortUnknown(t *testing.T, c store.Catalogue) {
	rows := []store.Workload{Row(1), Row(2), Row(3), Row(4)}
	for i, v := range []*float64{pointerTo(3), nil, pointerTo(0), pointerTo(-2)} {
		rows[i].NetworkBytes = v
	}
	rows[0].ExitCode, rows[3].Submit = nil, time.Time{}
	requireNoError(t, c.Upsert(t.Context(), rows))
	for _, limit := range []int{0, 10} {
		for by, want := range map[string]string{
			"network_bytes": "4 3 1 2", "-network_bytes": "1 3 4 2",
			"exit_code": "3 4 2 1", "-exit_code": "2 4 3 1",
			"submit": "1 2 3 4", "-submit": "3 2 1 4",
		} {
			var got []string
			list, _ := listWorkloads(t, c, store.Filter{Sort: by, Limit: limit})
			for _, w := range list {
				got = append(got, strings.TrimPrefix(w.ID, "slurm/"))
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("by %s, limit %d: %s, want %s", by, limit, s, want)
			}
		}
	}
}

func testCatalogueConcurrent(t *testing.T, c store.Catalogue) {
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for g := range 4 {
		wg.Go(func() {
			for k := range 10 {
				w := Row(g*10 + k)
				errs <- c.Upsert(t.Context(), []store.Workload{w})
				_, _, err := c.Workloads(t.Context(), store.Filter{Sort: "-cpu_seconds", Limit: 5})
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		requireNoError(t, err)
	}
	if _, n := listWorkloads(t, c, store.Filter{}); n != 40 {
		t.Errorf("%d rows, want 40", n)
	}
}
