package importer

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/store"
	"reckon/store/tsdb"
)

// lab is a store with its catalogue, and imports into it.
type lab struct {
	t     *testing.T
	dir   string
	store *tsdb.Store
	facts *database.Catalogue
	b     *catalogue.Builder
	o     Options
}

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newLab(t *testing.T) *lab {
	t.Helper()
	return openLab(t, t.TempDir())
}

// take imports texts, in sonar's format unless a name ends in .sacct, and updates the catalogue.
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
	if _, err := l.b.History(ctx, res.Ranges, res.Gone...); err != nil {
		l.t.Fatal(err)
	}
	if err := im.Done(); err != nil {
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
		fmt.Fprintf(&b, "%s %s %s %s %g %s\n", w.ID, w.Owner, strings.Join(w.Nodes, ","), w.Start.Format("2006-01-02T15:04:05"),
			end.Sub(w.Start).Seconds(), cpu)
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

// TestJobOverNodes: one job on three nodes, with the result expected by sonalyze's own test: NAICNO/Jobanalyzer
// code/tests/sonalyze/jobs/r630_compress_hosts.
func TestJobOverNodes(t *testing.T) {
	l := newLab(t)
	text := read(t, "testdata/r630_compress_hosts.csv")
	res := l.take("a.csv", text)
	if res.Taken != 12 || res.BadCount != 0 {
		t.Errorf("%+v", res)
	}
	const want = "slurm/937627 ec-testuser c1-10.fox,c1-18.fox,c1-19.fox 2024-10-22T01:03:52 969 30729"
	l.want(want)
	if res := l.take("a.csv", text, "b.csv", text); res.Taken != 0 || res.Known != 24 || res.Samples != 0 {
		t.Errorf("again: %+v", res)
	}
	l.want(want)
}

// said is a reading of one process by sonar at a minute.
func said(minute int, job, pid, ppid uint32, cmd string, cpu int, more string) string {
	at := time.Date(2025, 3, 1, 10, minute, 0, 0, time.UTC).Format(time.RFC3339)
	return fmt.Sprintf("v=0.13.0,time=%s,host=n1,user=alice,cmd=%s,job=%d,pid=%d,ppid=%d,rssanonkib=1024,cputime_sec=%d%s\n", at, cmd, job,
		pid, ppid, cpu, more)
}

// TestWaitedForChildren: the use of children that a parent has waited for was counted while they lived; use of children
// nobody waited for stays counted; a reused number is another process.
func TestWaitedForChildren(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want float64
	}{
		"waited for": {said(0, 7, 70, 1, "sh", 1, ",epoch=0") + said(0, 7, 71, 70, "cc", 50, ",epoch=0") +
			said(5, 7, 70, 1, "sh", 62, ",epoch=0"), 62},
		"by the grandparent": {
			said(0, 7, 70, 1, "sh", 1, ",epoch=0") + said(0, 7, 71, 70, "make", 2, ",epoch=0") + said(0, 7, 72, 71, "cc", 50, ",epoch=0") +
				said(5, 7, 70, 1, "sh", 60, ",epoch=0"), 60},
		"nobody waited": {said(0, 7, 70, 1, "sh", 1, ",epoch=0") + said(0, 7, 71, 70, "cc", 50, ",epoch=0") +
			said(5, 7, 70, 1, "sh", 2, ",epoch=0"), 52},
		"waited for later": {said(0, 7, 70, 1, "sh", 1, ",epoch=0") + said(0, 7, 71, 70, "cc", 50, ",epoch=0") +
			said(5, 7, 70, 1, "sh", 2, ",epoch=0") + said(10, 7, 70, 1, "sh", 55, ",epoch=0"), 55},
		"a line is missing": {said(0, 7, 70, 1, "sh", 1, ",epoch=0") + said(0, 7, 71, 70, "cc", 50, ",epoch=0") +
			said(5, 7, 70, 1, "sh", 1, ",epoch=0") + said(10, 7, 70, 1, "sh", 1, ",epoch=0") + said(10, 7, 71, 70, "cc", 60, ",epoch=0"),
			61},
		"a line of several is missing": {said(0, 7, 70, 1, "sh", 1, ",epoch=0") + said(0, 7, 0, 70, "w", 50, ",epoch=0,rolledup=4") +
			said(5, 7, 70, 1, "sh", 1, ",epoch=0") + said(10, 7, 0, 70, "w", 60, ",epoch=0,rolledup=4"), 61},
		"of several one is left": {said(0, 7, 70, 1, "sh", 1, ",epoch=0") + said(0, 7, 0, 70, "w", 50, ",epoch=0,rolledup=1") +
			said(5, 7, 70, 1, "sh", 31, ",epoch=0") + said(5, 7, 72, 70, "w", 30, ",epoch=0"), 61},
		"the line of a parent is missing": {
			said(0, 7, 70, 1, "sh", 1, ",epoch=0") + said(0, 7, 71, 70, "cc", 50, ",epoch=0") + said(0, 7, 72, 70, "ld", 3, ",epoch=0") +
				said(5, 7, 72, 70, "ld", 3, ",epoch=0") + said(10, 7, 70, 1, "sh", 53, ",epoch=0") + said(10, 7, 72, 70, "ld", 3,
				",epoch=0"), 56},
		"another process with the number": {said(0, 7, 71, 1, "cc", 50, ",epoch=0") + said(5, 7, 71, 1, "ld", 3, ",epoch=0"), 53},
		"some of several gone": {said(0, 7, 0, 70, "w", 50, ",epoch=0,rolledup=4") + said(5, 7, 0, 70, "w", 30, ",epoch=0,rolledup=2") +
			said(10, 7, 0, 70, "w", 40, ",epoch=0,rolledup=2"), 60},
	} {
		l := newLab(t)
		l.take("x", c.text)
		rows, _, err := l.facts.Workloads(t.Context(), store.Filter{})
		if err != nil || len(rows) != 1 || *rows[0].CPUSeconds != c.want {
			t.Errorf("%s: %s want %g (%v)", name, l.rows(), c.want, err)
		}
	}
}

// TestGroups: without a batch system a job is a process group of one node during one uptime;
// job 0 is not a job.
func TestGroups(t *testing.T) {
	l := newLab(t)
	l.take("x", said(0, 7, 7, 1, "a", 5, ",epoch=12")+said(0, 7, 7, 1, "a", 6, ",epoch=13")+said(0, 0, 8, 1, "b", 2, ",epoch=12")+
		said(0, 0, 9, 1, "b", 3, ",epoch=12")+said(0, 7, 7, 1, "a", 4, ",epoch=0")+said(5, 7, 7, 1, "a", 9, ",epoch=12"))
	l.want(`group/n1/7-12 alice n1 2025-03-01T10:00:00 300 9
group/n1/7-13 alice n1 2025-03-01T10:00:00 0 6
group/n1/pid8-12 alice n1 2025-03-01T10:00:00 0 2
group/n1/pid9-12 alice n1 2025-03-01T10:00:00 0 3
slurm/7 alice n1 2025-03-01T10:00:00 0 4`)
}

// TestGrowing: a file that has grown, one that overlaps and one that is older add only new data; together
// they equal a single import of everything.
func TestGrowing(t *testing.T) {
	var all []string
	for m := 0; m < 50; m += 5 {
		all = append(all, said(m, 7, 70, 1, "sh", 10*m, ",epoch=0")+said(m, 7, 71, 70, "cc", m, ",epoch=0"))
	}
	once := newLab(t)
	once.take("all", strings.Join(all, ""))
	bits := newLab(t)
	bits.take("a", strings.Join(all[2:5], ""))
	if r := bits.take("a", strings.Join(all[2:7], "")); r.Taken != 4 || r.Known != 6 {
		t.Errorf("grown: %+v", r)
	}
	if r := bits.take("b", strings.Join(all[4:], "")); r.Taken != 6 || r.Known != 6 {
		t.Errorf("overlap: %+v", r)
	}
	if r := bits.take("old", strings.Join(all, "")); r.Taken != 4 || r.Known != 16 {
		t.Errorf("older: %+v", r)
	}
	bits.want(once.rows())
	if r := bits.take("old", strings.Join(all, "")); r.Taken != 0 || r.Known != 20 || r.Samples != 0 || len(r.Ranges) != 0 {
		t.Errorf("again: %+v", r)
	}
}

// TestOrder: files in any order in one import are processed in order of time.
func TestOrder(t *testing.T) {
	l := newLab(t)
	l.take("b", said(10, 7, 70, 1, "sh", 30, ",epoch=0"), "a", said(0, 7, 70, 1, "sh", 10, ",epoch=0"), "c",
		said(5, 7, 70, 1, "sh", 20, ",epoch=0"))
	l.want("slurm/7 alice n1 2025-03-01T10:00:00 600 30")
}

// TestRegressions: lines of sonalyze's own tests: of two readings of one process at one time only one counts,
// and CPU time that falls is not use.
func TestRegressions(t *testing.T) {
	l := newLab(t)
	l.o.Batch = true
	l.take("x", read(t, "testdata/regress_60_filter_dup_timestamps.csv"))
	rows, _, err := l.facts.Workloads(t.Context(), store.Filter{})
	if err != nil || len(rows) != 1 || *rows[0].CPUSeconds != 316 || rows[0].GPUSeconds == nil {
		t.Errorf("%v\n%s", err, l.rows())
	}
	l = newLab(t)
	l.o.Batch = true
	l.take("x", read(t, "testdata/regress_63_filter_negative_utilization.csv"))
	rows, _, err = l.facts.Workloads(t.Context(), store.Filter{})
	if err != nil || len(rows) != 1 || *rows[0].CPUSeconds != 310+710 {
		t.Errorf("%v\n%s", err, l.rows())
	}
}

const accounted = `JobID|JobIDRaw|User|Account|State|Submit|Start|End|ElapsedRaw|UserCPU|SystemCPU|ReqCPUS|MaxRSS|NodeList|JobName
7|7|alice|p1|OUT_OF_MEMORY|2025-03-01T09:00:00|2025-03-01T10:00:00|2025-03-03T10:00:00|172800|1-00:00:00|00:10.000|4||n[1-2]|train
7.batch|7.batch||p1|OUT_OF_MEMORY|2025-03-01T10:00:00|2025-03-01T10:00:00|2025-03-03T10:00:00|172800|||4|2G|n1|batch
8|8|bob|p1|PENDING|2025-03-01T09:00:00|Unknown|Unknown|0|||4|||wait
`

// TestAccounting: use from accounting counts where nothing was measured, before or after, and once.
func TestAccounting(t *testing.T) {
	l := newLab(t)
	if r := l.take("a.sacct", accounted); r.Taken != 1 || r.Waiting != 1 {
		t.Errorf("%+v", r)
	}
	l.take("a.sacct", accounted)
	get := func() store.Workload {
		t.Helper()
		rows, _, err := l.facts.Workloads(t.Context(), store.Filter{})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%v\n%s", err, l.rows())
		}
		return rows[0]
	}
	w := get()
	if *w.CPUSeconds != 86410 || *w.MemoryPeakBytes != 2<<30 || w.State != "out_of_memory" || w.Name != "train" || w.Account != "p1" ||
		*w.RequestCores != 4 ||
		w.End.Sub(w.Start) != 48*time.Hour || strings.Join(w.Nodes, ",") != "n1,n2" ||
		!w.Submit.Equal(time.Date(2025, 3, 1, 9, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", w)
	}
	use, err := l.facts.Use(t.Context(), store.RollupQuery{From: w.Start, To: w.End, Span: store.SpanWhole, By: []string{"owner"}})
	if err != nil || len(use) != 1 || *use[0].CPUSeconds < 86409 || *use[0].CPUSeconds > 86411 {
		t.Errorf("usage %+v, %v", use, err)
	}
	l.take("x", said(0, 7, 70, 1, "python", 10, ",epoch=0")+said(30, 7, 70, 1, "python", 500, ",epoch=0"))
	if w := get(); *w.CPUSeconds != 500 || *w.MemoryPeakBytes != 1<<20 || w.State != "out_of_memory" || w.Name != "train" {
		t.Errorf("measured afterwards: %+v", w)
	}
	other := newLab(t)
	other.take("x", said(0, 7, 70, 1, "python", 10, ",epoch=0")+said(30, 7, 70, 1, "python", 500, ",epoch=0"))
	other.take("a.sacct", accounted)
	l = other
	if w := get(); *w.CPUSeconds != 500 || w.State != "out_of_memory" {
		t.Errorf("measured before: %+v", w)
	}
}

// TestRequeued: a requeued job ended, with its use, when its next run was submitted.
func TestRequeued(t *testing.T) {
	l := newLab(t)
	const text = "JobID|JobIDRaw|User|Account|State|Submit|Start|End|ExitCode|NNodes|AllocCPUS|TotalCPU|NodeList|Partition|JobName|Cluster\n" +
		"48|48|alice|p1|REQUEUED|2026-11-20T08:00:00|2026-11-20T08:01:00|2026-11-20T08:05:00|0:0|1|4|00:12:48|n1|p|again|hpc\n" +
		"48|48|alice|p1|COMPLETED|2026-11-20T08:05:00|2026-11-20T08:07:00|2026-11-20T08:25:00|0:0|1|4|00:57:36|n1|p|again|hpc\n"
	for range 2 { // the second time as a repeated import
		l.take("a.sacct", text)
	}
	rows, _, err := l.facts.Workloads(t.Context(), store.Filter{IDs: []string{"slurm/48"}, Sort: "start"})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v\n%s", err, l.rows())
	}
	for i, want := range []struct {
		state string
		cpu   float64
		end   int
	}{{"requeued", 768, 5}, {"completed", 3456, 25}} {
		w := rows[i]
		if w.State != want.state || w.CPUSeconds == nil || *w.CPUSeconds != want.cpu ||
			!w.End.Equal(time.Date(2026, 11, 20, 8, want.end, 0, 0, time.UTC)) || w.Name != "again" {
			t.Errorf("%+v, want %+v", w, want)
		}
		if (w.ExitCode == nil) != (i == 0) {
			t.Errorf("%s: exit code %v", w.State, w.ExitCode)
		}
	}
}

// TestFuture: readings and jobs in the future are refused and listed.
func TestFuture(t *testing.T) {
	l := newLab(t)
	r := l.take("x", "v=0.13.0,time=2027-01-01T00:00:00Z,host=n1,user=a,cmd=b,job=1,pid=2,cputime_sec=1\n",
		"a.sacct", "JobID|User|State|Submit|Start|End|JobName\n9|a|COMPLETED|2027-01-01T00:00:00|2027-01-01T00:00:00|2027-01-01T00:01:00|x\n")
	if r.BadCount != 2 || r.Taken != 0 || len(l.rows()) != 0 {
		t.Errorf("%+v %s", r, l.rows())
	}
}

// TestCards: GPU figures of a reading get the names of the agent's series, and a
// performance state is its value, not one more.
func TestCards(t *testing.T) {
	l := newLab(t)
	one := func(at, cards string) string {
		return `{"meta":{"producer":"sonar"},"data":{"type":"sample","attributes":{"time":"` + at +
			`","cluster":"x","node":"n1","system":{"gpus":[` + cards + `]},"jobs":[]}}}` + "\n"
	}
	text := one("2026-11-20T10:00:00Z",
		`{"uuid":"GPU-1","fan":37,"performance_state":3,"memory":1024,"ce_util":94,"temperature":61,"power":191,"ce_clock":1785},`+
			`{"index":1,"uuid":"GPU-2"},{"index":2,"uuid":"GPU-3","failing":1,"power":5}`) +
		one("2026-11-20T10:05:00Z", `{"uuid":"GPU-1","performance_state":1,"memory":2048,"power":200}`)
	l.take("a.json", text)
	l.take("a.json", text) // adds nothing
	q, err := l.store.Querier(0, now.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	got := map[string][]float64{}
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", "reckon_gpu_.*"))
	for set.Next() {
		ls := set.At().Labels()
		if ls.Get("node") != "n1" || ls.Get("site") != "x" || ls.Get("source") != "sonar" {
			t.Errorf("labels %s", ls)
		}
		key := strings.TrimPrefix(ls.Get("__name__"), "reckon_gpu_") + " " + ls.Get("device")
		for it := set.At().Iterator(nil); it.Next() == chunkenc.ValFloat; {
			if _, v := it.At(); v == v {
				got[key] = append(got[key], v)
			}
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	for key, want := range map[string][]float64{
		"info GPU-1": {1, 1}, "memory_bytes GPU-1": {1 << 20, 2 << 20}, "performance_state GPU-1": {2, 0}, "busy_ratio GPU-1": {0.94, 0},
		"fan_ratio GPU-1":           {0.37, 0},
		"temperature_celsius GPU-1": {61}, "power_watts GPU-1": {191, 200}, "clock_hertz GPU-1": {1785e6},
		"info GPU-2": {1}, "memory_bytes GPU-2": {0}, "performance_state GPU-2": nil, "power_watts GPU-2": nil, "info GPU-3": {1},
		"power_watts GPU-3": nil, "memory_bytes GPU-3": nil,
	} {
		if fmt.Sprint(got[key]) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", key, got[key], want)
		}
	}
}

// TestDamagedGzip: a truncated compressed file is listed, its data up to there is imported, and so are the
// files after it.
func TestDamagedGzip(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for m := range 50 {
		if _, err := io.WriteString(z, said(m, 7, 70, 1, "sh", 10+m, ",epoch=0")); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{3, 11, packed.Len() / 2, packed.Len() - 1} {
		l := newLab(t)
		r := l.take("cut.gz", packed.String()[:cut], "b", said(55, 7, 70, 1, "sh", 99, ",epoch=0"))
		if r.BadCount != 1 || r.Bad[0].File != "cut.gz" || !strings.Contains(r.Bad[0].Error, "truncated or corrupt") || r.Taken < 1 ||
			(cut > 100 && r.Taken < 10) {
			t.Errorf("cut at %d: %+v", cut, r)
		}
	}
}

// TestImpossible: impossible values are refused and listed; each record is counted once.
func TestImpossible(t *testing.T) {
	boot := `{"meta":{},"data":{"type":"sample","attributes":{"time":"2025-03-01T10:%02d:00Z","cluster":"","node":"n1",` +
		`"system":{"boot":"2025-03-01T00:00:00Z","cpus":[1,1]},` +
		`"jobs":[{"job":7,"user":"alice","epoch":0,"processes":[{"pid":70,"ppid":1,"cmd":"a","cpu_time":%s,"cpu_avg":1,` +
		`"resident_memory":%s}]}]}}}` + "\n"
	for name, c := range map[string]struct {
		text    string
		taken   int
		refused int
		cpu     float64
		words   string
	}{
		"20 digits": {
			said(0, 7, 70, 1, "a", 5, ",epoch=0") + strings.Replace(said(5, 7, 70, 1, "a", 5, ",epoch=0"), "cputime_sec=5",
				"cputime_sec=99999999999999999999", 1), 1, 0, 5, "no machine gives that"},
		"20 digits in JSON": {fmt.Sprintf(boot, 0, "5", "0") + fmt.Sprintf(boot, 5, "99999999999999999999", "0"), 1, 0, 5,
			"no machine gives that"},
		"memory": {fmt.Sprintf(boot, 0, "5", "9e15") + fmt.Sprintf(boot, 5, "6", "4096"), 1, 0, 6, "no machine gives that"},
		// The node was up for 36,300 s and has 2 cores.
		"as much as the node can": {fmt.Sprintf(boot, 5, "72000", "0"), 1, 0, 72000, ""},
		"more than the node can": {fmt.Sprintf(boot, 0, "5", "0") + fmt.Sprintf(boot, 5, "79000", "0"), 1, 1, 5,
			"the node can have given"},
		// In 300 s a job can grow by at most 635 s here.
		"a jump that can be": {fmt.Sprintf(boot, 0, "5", "0") + fmt.Sprintf(boot, 5, "630", "0"), 2, 0, 630, ""},
		"a jump that cannot be": {fmt.Sprintf(boot, 0, "5", "0") + fmt.Sprintf(boot, 5, "700", "0") + fmt.Sprintf(boot, 10, "30", "0"), 2,
			1, 30, "grew by 695 s"},
	} {
		l := newLab(t)
		r := l.take("x", c.text)
		rows, _, err := l.facts.Workloads(t.Context(), store.Filter{})
		if err != nil || len(rows) != 1 || *rows[0].CPUSeconds != c.cpu || r.Taken != c.taken || r.Refused != c.refused {
			t.Errorf("%s: %v %+v %s, want %g CPU seconds", name, err, r, l.rows(), c.cpu)
		}
		if (c.words == "") != (len(r.Bad) == 0) || (len(r.Bad) > 0 && !strings.Contains(r.Bad[0].Error, c.words)) {
			t.Errorf("%s: %+v", name, r.Bad)
		}
		if r.Records != r.Taken+r.Known+r.Measured+r.Waiting+r.Heartbeats+r.Refused {
			t.Errorf("%s: not every record is counted: %+v", name, r)
		}
		if again := l.take("x", c.text); again.Taken != 0 || again.Samples != 0 {
			t.Errorf("%s, again: %+v", name, again)
		}
	}
}
