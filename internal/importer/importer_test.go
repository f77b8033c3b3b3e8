package importer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/query"
	"reckon/store"
	"reckon/store/catalogue"
	"reckon/store/tsdb"
)

// lab is a store with its catalogue, and imports into it.
type lab struct {
	t     *testing.T
	dir   string
	store *tsdb.Store
	facts *catalogue.Catalogue
	b     *query.Builder
	o     Options
}

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newLab(t *testing.T) *lab {
	t.Helper()
	dir := t.TempDir()
	clock := func() time.Time { return now }
	s, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, err := catalogue.Open(filepath.Join(dir, "catalogue.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &lab{t: t, dir: dir, store: s, facts: c, b: query.NewBuilder(s, c, query.BuilderOptions{Clock: clock}),
		o: Options{Store: s, Dir: filepath.Join(dir, "imports"), Clock: clock, Zone: time.UTC}}
}

// take imports texts, sonar's unless a name ends in .sacct, and brings the catalogue up.
func (l *lab) take(files ...string) Result {
	l.t.Helper()
	ctx := context.Background()
	if err := l.b.Ready(ctx); err != nil {
		l.t.Fatal(err)
	}
	im := New(l.o)
	for i := 0; i+1 < len(files); i += 2 {
		var err error
		if strings.HasSuffix(files[i], ".sacct") {
			err = im.Sacct(ctx, files[i], strings.NewReader(files[i+1]))
		} else {
			err = im.Sonar(ctx, files[i], strings.NewReader(files[i+1]))
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
	res, err := im.Finish(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.b.History(ctx, res.Ranges); err != nil {
		l.t.Fatal(err)
	}
	return res
}

// rows lists the catalogue as text: id, owner, nodes, start, wall seconds, CPU seconds.
func (l *lab) rows() string {
	l.t.Helper()
	rows, _, err := l.facts.Workloads(context.Background(), store.Filter{Sort: "id"})
	if err != nil {
		l.t.Fatal(err)
	}
	var b strings.Builder
	for _, w := range rows {
		end := w.End
		if end.IsZero() {
			end = w.Seen
		}
		cpu := "-"
		if w.CPUSeconds != nil {
			cpu = fmt.Sprintf("%.6g", *w.CPUSeconds)
		}
		fmt.Fprintf(&b, "%s %s %s %s %g %s\n", w.ID, w.Owner, strings.Join(w.Nodes, ","), w.Start.Format("2006-01-02T15:04:05"), end.Sub(w.Start).Seconds(), cpu)
	}
	return b.String()
}

func (l *lab) want(text string) {
	l.t.Helper()
	if got := l.rows(); strings.TrimSpace(got) != strings.TrimSpace(text) {
		l.t.Errorf("catalogue:\n%s\nwant:\n%s", got, text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("%v: the file of another project is not here", err)
	}
	return string(raw)
}

// One job on three nodes, as sonalyze's own test wants it: by NAICNO/Jobanalyzer
// code/tests/sonalyze/jobs/r630_compress_hosts.
func TestJobOverNodes(t *testing.T) {
	l := newLab(t)
	text := read(t, "testdata/r630_compress_hosts.csv")
	res := l.take("a.csv", text)
	if res.Taken != 12 || res.BadCount != 0 {
		t.Errorf("%+v", res)
	}
	const want = "slurm/937627 ec-testuser c1-10.fox,c1-18.fox,c1-19.fox 2024-10-22T01:05:01 900 30729"
	l.want(want)
	if res := l.take("a.csv", text, "b.csv", text); res.Taken != 0 || res.Known != 24 || res.Samples != 0 {
		t.Errorf("again: %+v", res)
	}
	l.want(want)
}
