package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/interop/sacct"
	"reckon/interop/sonar"
	"reckon/store/tsdb"
)

// TestPacked: packing and unpacking preserves every bit.
func TestPacked(t *testing.T) {
	one, two := uint64(2), 0.1+0.2
	in := map[int64]*reading{
		1_700_000_000: {procs: []sonar.Process{
			{Job: 1 << 60, Epoch: 7, HasEpoch: true, User: "u", Cmd: "c", PID: 1<<32 - 1, PPID: 5, Rolled: 3, Threads: 9, CPU: 1.0 / 3,
				Mean: -1, Resident: 4096, Read: 0, Written: -1, GPUs: "0,1", GPU: 0.7, GPUMemory: 1 << 40},
			{User: "u", CPU: -1, Mean: 0, Resident: -1, Read: -1, Written: -1, GPU: -1, GPUMemory: -1},
		}, system: &sonar.System{Boot: -5, CPU: []float64{1, 2.5, 0}, Load1: &two, UsedMemory: 1e15 + 0.5,
			Cards: []sonar.Card{{Index: 4, UUID: "x", Failing: true, Performance: &one, Power: 191.5}}}},
		1_700_000_300: {memory: 1 << 36, cluster: `{"partitions":null}`},
	}
	p := coder{write: true}
	p.packReadings(sortedKeys(in), in)
	out := map[int64]*reading{}
	u := coder{b: p.b}
	if err := u.unpackReadings(out, false); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%v\n%+v\n%+v", err, in[1_700_000_000], out[1_700_000_000])
	}
	for n := range p.b {
		u := coder{b: p.b[:n]}
		if err := u.unpackReadings(map[int64]*reading{}, false); err == nil && n > 0 && n != len(p.b) {
			again := map[int64]*reading{}
			if (&coder{b: p.b[:n]}).unpackReadings(again, false) == nil && len(again) >= len(in) {
				t.Errorf("cut at %d of %d nothing is missed", n, len(p.b))
			}
		}
	}
}

// FuzzPacked: arbitrary bytes are an error or readings that can be packed again.
func FuzzPacked(f *testing.F) {
	p := coder{write: true}
	at := map[int64]*reading{60: {procs: []sonar.Process{{Job: 7, User: "a", Cmd: "b", CPU: 3}}, system: &sonar.System{CPU: []float64{1}}}}
	p.packReadings(sortedKeys(at), at)
	f.Add(p.b)
	n := nodeState{
		Last: 60, Jobs: map[jobKey]*jobState{
			{Job: 7}: {ID: "slurm/7", Commands: map[string]float64{"b": 3}, Procs: map[procKey]procState{{PID: 1}: {Used: processUse{3}}}}}}
	f.Add(n.packState())
	f.Fuzz(func(t *testing.T, raw []byte) {
		out := map[int64]*reading{}
		u := coder{b: raw}
		if u.unpackReadings(out, true) == nil {
			p := coder{write: true}
			p.packReadings(sortedKeys(out), out)
		}
		if s, err := unpackState(raw); err == nil {
			first := s.packState()
			again, err := unpackState(first)
			if err != nil || !bytes.Equal(again.packState(), first) {
				t.Errorf("a state is not the same packed twice: %v", err)
			}
		}
	})
}

// TestStateOfAnotherRelease: a state of another version is an error.
func TestStateOfAnotherRelease(t *testing.T) {
	c, version := coder{write: true}, int64(-packVersion-1)
	c.codeInt(&version)
	if _, err := unpackState(c.b); err == nil || !strings.Contains(err.Error(), "version") {
		t.Error(err)
	}
}

// TestTornLog: a log truncated while it was written is read up to there, and continued from there.
func TestTornLog(t *testing.T) {
	dir := t.TempDir()
	j, err := openJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	add := func(j *journal, at int64) {
		t.Helper()
		l, err := j.openLog(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.appendReadings(0, l, []string{"n1"},
			map[string]map[int64]*reading{"n1": {at: {procs: []sonar.Process{{Job: uint64(at), User: "u"}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	add(j, 100)
	whole, err := os.ReadFile(j.filePath(0, ".log"))
	if err != nil {
		t.Fatal(err)
	}
	add(j, 200)
	all, err := os.ReadFile(j.filePath(0, ".log"))
	if err != nil {
		t.Fatal(err)
	}
	garbled := bytes.Clone(all)
	garbled[len(garbled)-1] ^= 1
	for _, raw := range [][]byte{all[:len(whole)+3], all[:len(whole)+9], all[:len(all)-1], garbled} {
		if err := os.WriteFile(j.filePath(0, ".log"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		l, err := j.openLog(0)
		if err != nil || len(l.pieces["n1"]) != 1 {
			t.Fatalf("%d pieces, %v", len(l.pieces["n1"]), err)
		}
		add(j, 300)
		if j, err = openJournal(dir); err != nil {
			t.Fatal(err)
		}
		if l, err = j.openLog(0); err != nil {
			t.Fatal(err)
		}
		got := map[int64]*reading{}
		if err := j.loadReadings(l, l.pieces["n1"], 0, got); err != nil || fmt.Sprint(sortedKeys(got)) != "[100 300]" {
			t.Errorf("%v, %v", sortedKeys(got), err)
		}
	}
	// Corruption in the middle is an error that names the position.
	garbled[12] ^= 1
	if err := os.WriteFile(j.filePath(0, ".log"), append(garbled, whole...), 0o600); err != nil {
		t.Fatal(err)
	}
	if j, err = openJournal(dir); err != nil {
		t.Fatal(err)
	}
	l, err := j.openLog(0)
	if err == nil {
		err = j.loadReadings(l, l.pieces["n1"], 0, map[int64]*reading{})
	}
	if err == nil || !strings.Contains(err.Error(), "0.log is corrupt at byte 0") {
		t.Errorf("%v", err)
	}
}

// dying is a store that fails from one of its changes on, like a killed process, which does
// nothing more.
type dying struct {
	*tsdb.Store
	left int
}

var errKilled = errors.New("killed")

func (d *dying) ImportBlocks(ctx context.Context, h *tsdb.History) error {
	if d.left--; d.left < 0 {
		return errKilled
	}
	return d.Store.ImportBlocks(ctx, h)
}

func (d *dying) Delete(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) error {
	if d.left--; d.left < 0 {
		return errKilled
	}
	return d.Store.Delete(ctx, mint, maxt, ms...)
}

// TestKilled: an import that is killed at any of its changes of the store, or before the catalogue
// is updated, is completed by the next one: nothing twice, nothing lost.
func TestKilled(t *testing.T) {
	old, late := said(0, 7, 70, 1, "sh", 10, ",epoch=0")+said(20, 7, 70, 1, "sh", 30, ",epoch=0")+said(0, 9, 90, 1, "x", 5, ",epoch=0"),
		said(10, 7, 70, 1, "sh", 20, ",epoch=0")+said(5, 8, 80, 1, "b", 20, ",epoch=0")+said(40, 9, 90, 1, "x", 55, ",epoch=0")
	once := newLab(t)
	once.take("all", old+late)
	series, facts := once.dump(), once.everything()
	for left := 0; ; left++ {
		l := newLab(t)
		l.take("old", old)
		whole := l.o.Store
		l.o.Store = &dying{l.store, left}
		im := New(l.o)
		ctx := t.Context()
		if err := l.b.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		if err := im.Sonar(ctx, "late", strings.NewReader(late)); err != nil {
			t.Fatal(err)
		}
		_, err := im.Finish(ctx)
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		l.o.Store = whole
		if sites, err := filepath.Glob(filepath.Join(l.o.Dir, "*.pending")); err != nil || len(sites) != 1 {
			t.Fatalf("after %d changes: unfinished %q, %v", left, sites, err)
		}
		res := l.take("late", late)
		if !res.Resumed || res.Taken != 0 || res.Known != 3 {
			t.Errorf("after %d changes: %+v", left, res)
		}
		if got := l.dump(); got != series {
			t.Errorf("after %d changes: %s", left, first(got, series))
		}
		if got := l.everything(); got != facts {
			t.Errorf("after %d changes: %s", left, first(got, facts))
		}
		if res := l.take("late", late); res.Resumed || res.Samples != 0 {
			t.Errorf("after %d changes, once more: %+v", left, res)
		}
		if sites, err := filepath.Glob(filepath.Join(l.o.Dir, "*.pending")); err != nil || len(sites) != 0 {
			t.Errorf("unfinished %q, %v", sites, err)
		}
		if err == nil {
			break
		}
	}
	if names, err := filepath.Glob(filepath.Join(once.o.Dir, "*.pending")); err != nil || len(names) != 0 {
		t.Errorf("%v %v", names, err)
	}
}

// TestAccountingOfLives: the accounting of a run counts if that run was not measured, in any order, even if
// its number belonged to another job before.
func TestAccountingOfLives(t *testing.T) {
	const twice = `JobID|User|State|Submit|Start|End|UserCPU|NodeList|JobName
7|alice|COMPLETED|2025-02-20T09:00:00|2025-02-20T10:00:00|2025-02-20T11:00:00|00:40:00|n1|one
7|alice|COMPLETED|2025-03-01T09:00:00|2025-03-01T10:00:00|2025-03-01T11:00:00|00:50:00|n1|two
`
	seen := said(5, 7, 70, 1, "python", 10, ",epoch=0") + said(30, 7, 70, 1, "python", 500, ",epoch=0")
	var facts string
	for i, order := range [][]string{{"a.sacct", twice, "x", seen}, {"x", seen, "a.sacct", twice}} {
		l := newLab(t)
		l.take(order[:2]...)
		l.take(order[2:]...)
		got := l.everything()
		if i == 0 {
			facts = got
		}
		if got != facts {
			t.Errorf("the other order:\n%s\nfirst\n%s", got, facts)
		}
		if !strings.Contains(got, "one completed") || !strings.Contains(got, "cpu 2400 ") || !strings.Contains(got, "cpu 500 ") ||
			strings.Contains(got, "cpu 3000 ") {
			t.Errorf("%s", got)
		}
	}
}

// TestTasksOfArrays: sonar reports a task of an array by its number, accounting by array and index: they are one
// job, in any order, and a reused number is another job.
func TestTasksOfArrays(t *testing.T) {
	const tasks = `JobID|JobIDRaw|User|State|Submit|Start|End|UserCPU|NodeList|JobName
5_3|7|alice|COMPLETED|2025-03-01T09:00:00|2025-03-01T10:00:00|2025-03-01T10:40:00|00:50:00|n1|array
`
	seen := said(5, 7, 70, 1, "python", 10, ",epoch=0") + said(30, 7, 70, 1, "python", 500, ",epoch=0")
	later := strings.ReplaceAll(said(5, 7, 70, 1, "other", 40, ",epoch=0"), "2025-03-01", "2025-06-01")
	full := func(s string) string { return strings.ReplaceAll(s, "host=n1", "host=n1.site.example") } // Slurm's names have no domain
	for _, order := range [][]string{
		{"a.sacct", tasks, "x", seen + later}, {"x", seen, "a.sacct", tasks, "y", later}, {"y", later, "x", seen, "a.sacct", tasks},
		{"x", full(seen), "a.sacct", tasks, "y", full(later)}, {"a.sacct", tasks, "x", full(seen), "y", full(later)},
		{"x", full(seen), "a.sacct", tasks, "a.sacct", tasks, "y", full(later)},
	} {
		l := newLab(t)
		for i := 0; i < len(order); i += 2 {
			l.take(order[i], order[i+1])
		}
		node := "n1"
		if strings.Contains(fmt.Sprint(order), "n1.site") {
			node = "n1.site.example"
		}
		l.want(strings.ReplaceAll(`slurm/5_3 alice n1 2025-03-01T10:00:00 2400 500
slurm/7 alice n1 2025-06-01T10:05:00 0 40`, "n1", node))
		if d := l.dump(); strings.Count(d, "reckon_slurm_number_info") != 1 || !strings.Contains(d, `number="7"`) {
			t.Error("the number of the task is not reported")
		}
		for i := 0; i < len(order); i += 2 {
			if r := l.take(order[i], order[i+1]); r.Samples != 0 {
				t.Errorf("again: %+v", r)
			}
		}
	}
}

// TestTaskUnderItsNumberIsMended: data that a release without this mapping left under the number of a task is
// corrected by the next import of the same accounting.
func TestTaskUnderItsNumberIsMended(t *testing.T) {
	const tasks = `JobID|JobIDRaw|User|State|Submit|Start|End|UserCPU|NodeList|JobName
5_3|7|alice|COMPLETED|2025-03-01T09:00:00|2025-03-01T10:00:00|2025-03-01T10:40:00|00:50:00|n1|array
`
	l := newLab(t)
	l.take("x", strings.ReplaceAll(said(5, 7, 70, 1, "python", 10, ",epoch=0")+said(30, 7, 70, 1, "python", 500, ",epoch=0"), "host=n1",
		"host=n1.site"))
	// As if accounting had been imported without finding its task.
	st, err := loadSite(l.o.Dir, "")
	if err != nil {
		t.Fatal(err)
	}
	err = sacct.Read(strings.NewReader(tasks), sacct.Options{Zone: time.UTC}, func(j *sacct.Job) error {
		st.addJobID(j)
		st.Jobs[jobFingerprint(j)] = true
		return nil
	}, func(_ int, err error) { t.Fatal(err) })
	if err != nil {
		t.Fatal(err)
	}
	if err := st.saveFile(); err != nil {
		t.Fatal(err)
	}
	l.want("slurm/7 alice n1.site 2025-03-01T10:05:00 1500 500")
	if r := l.take("a.sacct", tasks); r.Taken != 0 || r.Known != 1 {
		t.Errorf("%+v", r)
	}
	l.want("slurm/5_3 alice n1.site 2025-03-01T10:05:00 1500 500")
	if r := l.take("a.sacct", tasks); r.Samples != 0 {
		t.Errorf("again: %+v", r)
	}
}
