// Package newfigure holds what additions cost: a figure of a workload, a rule of misuse, a kind of workload. Each test makes one in
// a copy of the repository, as a person would, and has it built and tested there.
package newfigure

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// most is the number of files that a person may write for a figure with an existing series, its test and
// its note in the changelog included.
const most = 3

// row is the figure: the agent exports its series already.
const row = `	{Key: "context_switches", Unit: metric.None, Heading: "Context switches", Help: "Context switches, voluntary and involuntary.",
		In: Runs | Hours, From: allSeries("reckon_workload_context_switches_total"), How: counted},
`

// test feeds the series through the store and the builder into the database.
const test = `package catalogue

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/web/client"
	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

func TestContextSwitches(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	d := desc("reckon_workload_context_switches_total", metric.Counter, "type")
	x.begin("slurm/1", partPlace{Node: "n1", Part: "0"}, partPlace{Node: "n2", Part: "0"})
	x.begin("slurm/2", partPlace{Node: "n1", Part: "0"})
	for i := range 20 {
		x.work(steady)
		for _, p := range x.live {
			b := x.batch[p.Node]
			if b == nil {
				b = &metric.Batch{Time: x.now}
				x.batch[p.Node] = b
			}
			if p.id == "slurm/1" {
				for _, kind := range []string{"voluntary", "involuntary"} {
					b.Add(metric.NewSeries(d, p.id, "slurm", p.Part, "alice", kind), float64(10*i))
				}
			}
		}
		x.exportAll()
	}
	advance(t, x.builder())
	rows, _, err := x.c.Workloads(t.Context(), store.Filter{Sort: "-context_switches"})
	if err != nil || len(rows) != 2 || rows[0].ID != "slurm/1" || rows[0].ContextSwitches == nil || *rows[0].ContextSwitches != 4*190 || rows[1].ContextSwitches != nil {
		t.Fatalf("%+v %v", rows, err)
	}
	text, err := json.Marshal(client.Workload{Row: rows[0].Row})
	if err != nil || !strings.Contains(string(text), "\"context_switches\":760") {
		t.Errorf("%s %v", text, err)
	}
	if !slices.Contains(client.SortKeys(), "context_switches") {
		t.Error("no sort key")
	}
	if _, err := x.builder().Rebuild(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	use, err := x.c.Use(t.Context(), store.RollupQuery{From: simBegin.Truncate(time.Hour), To: x.now, Span: store.SpanWhole})
	if err != nil || len(use) != 1 || use[0].ContextSwitches == nil || *use[0].ContextSwitches < 700 {
		t.Errorf("hours: %+v %v", use, err)
	}
	if figure.Index(figure.Hours, "context_switches") < 0 {
		t.Error("not in hours")
	}
}
`

// affected are the packages that read the table.
var affected = []string{"./figure/...", "./web/client", "./catalogue", "./catalogue/database", "./web/api", "./internal/archtest"}

func TestNewFigure(t *testing.T) {
	root, scratch := copied(t)

	// By hand: the row, a test, a note.
	edit(t, filepath.Join(scratch, "figure/table.go"), "\t{Key: \"swap_peak_bytes\"", row+"\t{Key: \"swap_peak_bytes\"")
	write(t, filepath.Join(scratch, "catalogue/context_switches_test.go"), test)
	edit(t, filepath.Join(scratch, "CHANGELOG.md"), "\n**Answers**\n", "\n- Runs have their context switches.\n\n**Answers**\n")
	run(t, scratch, "go", "generate", "./figure")
	atMost(t, root, scratch, most)
	contains(t, filepath.Join(scratch, "doc/figures.md"), "context_switches")
	contains(t, filepath.Join(scratch, "web/ui/src/lib/vocabulary.ts"), "context_switches")

	// Columns of the databases, the API's description, sort keys and the columns in memory
	// follow; a database of before gets its columns.
	run(t, scratch, "go", "build", "./cmd/...")
	run(t, scratch, "go", append([]string{"vet"}, affected...)...)
	run(t, scratch, "go", append([]string{"test", "-run", "ContextSwitches|Figure|Table|Generated|UpToDate|Column|Described|Stale|OpenAPI|Document|Architecture|State|CSV|SortKeys"}, affected...)...)
}

// atMost holds the number of files that were changed by hand.
func atMost(t *testing.T, root, scratch string, most int) {
	t.Helper()
	byHand := changed(t, root, scratch)
	if len(byHand) > most {
		t.Errorf("%d files written by hand, at most %d: %v", len(byHand), most, byHand)
	}
	if len(byHand) == 0 {
		t.Error("nothing was changed: the copy is not what is compared")
	}
}

// contains holds that a file names the addition.
func contains(t *testing.T, path, text string) {
	t.Helper()
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), text) {
		t.Errorf("%s does not name %s (%v)", path, text, err)
	}
}

// copied returns a copy of the repository, and its root.
func copied(t *testing.T) (root, scratch string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and tests a copy of the repository")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	scratch = t.TempDir()
	clone(t, root, scratch)
	return root, scratch
}

// clone copies files that git knows, and new ones that it does not ignore.
func clone(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range known(t, from) {
		data, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, name), string(data))
	}
}

func known(t *testing.T, root string) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the repository cannot be listed: %v", err)
	}
	return slices.DeleteFunc(strings.Split(string(out), "\x00"), func(name string) bool {
		info, err := os.Lstat(filepath.Join(root, name))
		return name == "" || err == nil && !info.Mode().IsRegular()
	})
}

// changed are the files of the copy that differ from the repository and were not generated.
func changed(t *testing.T, root, scratch string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(scratch, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(scratch, path)
		if err != nil {
			return err
		}
		now, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		first := bytes.Join(bytes.SplitN(now, []byte("\n"), 4)[:min(3, bytes.Count(now, []byte("\n"))+1)], nil)
		if was, err := os.ReadFile(filepath.Join(root, rel)); (err != nil || !bytes.Equal(was, now)) && !bytes.Contains(first, []byte("Code generated")) {
			out = append(out, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func edit(t *testing.T, path, old, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), old) != 1 {
		t.Fatalf("%s does not hold %q once: %v", path, old, err)
	}
	write(t, path, strings.Replace(string(data), old, text, 1))
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out[max(0, len(out)-4000):])
	}
}

// output returns what a program writes to standard output.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false", "RECKON_SERVER=http://127.0.0.1:1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// has reports whether a text has some words, however its lines are broken.
func has(text, words string) bool {
	return strings.Contains(text, words) || strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(words), " "))
}
