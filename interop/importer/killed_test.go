package importer

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/store/tsdb"
)

// openLab opens the stores of a directory.
func openLab(t *testing.T, dir string) *lab {
	t.Helper()
	clock := func() time.Time { return now }
	s, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c, err := database.Open(filepath.Join(dir, "catalogue.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &lab{t: t, dir: dir, store: s, facts: c, b: catalogue.NewBuilder(s, c, catalogue.BuilderOptions{Clock: clock}),
		o: Options{Store: s, Dir: filepath.Join(dir, "imports"), Clock: clock, Zone: time.UTC}}
}

// TestKilledAccountingChild is the program that TestKilledAccounting kills.
func TestKilledAccountingChild(t *testing.T) {
	dir := os.Getenv("RECKON_TEST_IMPORT")
	if dir == "" {
		t.Skip("run by TestKilledAccounting")
	}
	var files []string
	for _, name := range strings.Split(os.Getenv("RECKON_TEST_FILES"), ",") {
		files = append(files, name, read(t, name))
	}
	openLab(t, dir).take(files...)
}

// TestKilledAccounting: records shuffled over files, which are given in any order, and again after the program was killed at any of 20
// moments, end in the rows and sums of one clean import.
func TestKilledAccounting(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	records, truth := accounting(r, 500, 1800)
	clean := newLab(t)
	clean.take("all.sacct", accountingHead+strings.Join(records, ""))
	truth.check(clean)
	want := clean.everything()

	dir := t.TempDir()
	texts := make([]string, 4)
	for _, i := range r.Perm(len(records)) {
		at := r.IntN(len(texts))
		if texts[at] == "" {
			texts[at] = accountingHead
		}
		texts[at] += records[i]
	}
	var names []string
	for i, text := range texts {
		names = append(names, filepath.Join(dir, string(rune('a'+i))+".sacct"))
		if err := os.WriteFile(names[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	whole, ended := time.Second, 0
	for kill := range 21 {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		given := names[:1+r.IntN(len(names))]
		ctx, cancel := context.WithCancel(t.Context())
		if kill < 20 {
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(r.Float64()*float64(whole)))
		} else {
			given = names
		}
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledAccountingChild$") // killed by SIGKILL
		cmd.Env = append(os.Environ(), "RECKON_TEST_IMPORT="+data, "RECKON_TEST_FILES="+strings.Join(given, ","))
		began := time.Now()
		out, err := cmd.CombinedOutput()
		switch {
		case err != nil && ctx.Err() == nil:
			t.Fatalf("%v: %s", err, out)
		case err == nil:
			whole, ended = max(whole/2, time.Since(began)), ended+1
		default:
			whole += whole / 20
		}
		cancel()
	}
	l := openLab(t, data)
	truth.check(l)
	if got := l.everything(); got != want {
		t.Errorf("after 20 kills, %d imports that ended: %s", ended, first(got, want))
	}
	if res := l.take("all.sacct", accountingHead+strings.Join(records, "")); res.Taken != 0 || len(res.Ranges) != 0 {
		t.Errorf("again: %+v", res)
	}
}
