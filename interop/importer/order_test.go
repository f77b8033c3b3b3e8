package importer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/store"
)

// dump returns every imported sample, as text.
func (l *lab) dump() string {
	l.t.Helper()
	q, err := l.store.Querier(0, now.UnixMilli())
	if err != nil {
		l.t.Fatal(err)
	}
	defer q.Close()
	var out []string
	set := q.Select(l.t.Context(), false, nil, labels.MustNewMatcher(labels.MatchNotEqual, "source", ""))
	for set.Next() {
		var b strings.Builder
		fmt.Fprintf(&b, "%s", set.At().Labels())
		n := 0
		for it := set.At().Iterator(nil); it.Next() == chunkenc.ValFloat; n++ {
			t, v := it.At()
			fmt.Fprintf(&b, " %d=%g", t, v)
		}
		if n > 0 {
			out = append(out, b.String())
		}
	}
	if set.Err() != nil {
		l.t.Fatal(set.Err())
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// everything returns the contents of the catalogue: complete rows, and hours of use.
func (l *lab) everything() string {
	l.t.Helper()
	rows, _, err := l.facts.Workloads(context.Background(), store.Filter{Sort: "id"})
	if err != nil {
		l.t.Fatal(err)
	}
	var b strings.Builder
	value := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.9g", *v)
	}
	for _, w := range rows {
		fmt.Fprintf(&b, "%s %s %s %s %s %v %s..%s %s cpu %s user %s mem %s gpu %s r %s w %s\n", w.Site, w.ID, w.Owner, w.Name, w.State,
			w.Nodes, w.Start.Format(time.RFC3339), w.End.Format(time.RFC3339),
			w.Submit.Format(time.RFC3339), value(w.CPUSeconds), value(w.CPUUserSeconds), value(w.MemoryPeakBytes), value(w.GPUSeconds),
			value(w.ReadBytes), value(w.WriteBytes))
	}
	use, err := l.facts.Use(context.Background(),
		store.RollupQuery{From: time.Unix(0, 0), To: now, Span: store.SpanHour, By: []string{"owner"}})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, u := range use {
		fmt.Fprintf(&b, "%s %s %s\n", u.At.Format(time.RFC3339), u.Owner, value(u.CPUSeconds))
	}
	return b.String()
}

// first returns the first line in which two texts differ.
func first(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return fmt.Sprintf("line %d:\n%.1500s\n%.1500s", i, p, q)
		}
	}
	return ""
}

// madeUp are four simulated days of three nodes: jobs over several nodes, groups that run for days,
// processes of job 0, reused numbers, and nodes that are silent for days.
func madeUp(r *rand.Rand) []string {
	var lines []string
	start := time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)
	type job struct {
		node               string
		number, pid, epoch int
		from, to           int // readings
		more               string
	}
	var jobs []job
	for i := range 8 {
		from := r.IntN(22)
		to := from + 1 + r.IntN(12)
		for n := range 1 + r.IntN(3) {
			jobs = append(jobs, job{fmt.Sprintf("n%d", n), 100 + i, 1000 + 10*i, 0, from + r.IntN(2), to + r.IntN(3), ",epoch=0"})
		}
	}
	for i := range 6 {
		from := r.IntN(12)
		epoch := 77 + i
		jobs = append(jobs, job{fmt.Sprintf("n%d", i%3), 500 + i%2, 500 + i%2, epoch, from, from + 5 + r.IntN(20),
			fmt.Sprintf(",epoch=%d", epoch)})
		jobs = append(jobs, job{fmt.Sprintf("n%d", i%3), 0, 600 + i, epoch, from, from + r.IntN(10), fmt.Sprintf(",epoch=%d", epoch)})
		jobs = append(jobs, job{fmt.Sprintf("n%d", i%3), 700 + i, 700 + i, 0, from, from + r.IntN(15), ""}) // without an epoch
	}
	for at := range 30 {
		t := start.Add(time.Duration(at) * 3 * time.Hour)
		if at > 12 && at < 20 {
			t = t.Add(time.Duration(at%3) * time.Hour)
		}
		for _, j := range jobs {
			if at < j.from || at > j.to || (j.node == "n2" && at%12 > 8) {
				continue
			}
			used := (at - j.from) * (40 + j.pid%7)
			mean := float64(used+700) / float64((at-j.from)*10800+5000) * 100
			for p := range 1 + j.pid%3 {
				lines = append(
					lines, fmt.Sprintf(
						"v=0.13.0,time=%s,host=%s,user=u%d,cmd=c%d,job=%d,pid=%d,ppid=%d,cpu%%=%.1f,rssanonkib=%d,data_read=%d,cputime_sec=%d,gpus=%d,gpu%%=%d,gpukib=%d%s\n",
						t.Format(time.RFC3339), j.node, j.number%4, p, j.number, j.pid+p, j.pid-1+p, mean, 1000+at*7+j.pid, at*3,
						used+700+p, p, at%100, at*10, j.more))
			}
		}
		lines = append(lines, fmt.Sprintf("v=0.13.0,time=%s,host=n1,user=_sonar_,cmd=_heartbeat_,memtotalkib=%d,load=)(t*1b\n",
			t.Format(time.RFC3339), 1<<20+at/15))
	}
	return lines
}

// split distributes lines randomly over files: in runs of lines, or line by line.
func split(r *rand.Rand, lines []string, n int) []string {
	files := make([]string, n)
	if r.IntN(2) == 0 {
		lines = slices.Clone(lines)
		for i := range n {
			files[i] = strings.Join(lines[i*len(lines)/n:(i+1)*len(lines)/n], "")
		}
	} else {
		byNode := r.IntN(2) == 0
		for i, line := range lines {
			at := r.IntN(n)
			if byNode {
				_, host, _ := strings.Cut(line, "host=n")
				at = (int(host[0]) + i*n/len(lines)) % n
			}
			files[at] += line
		}
	}
	r.Shuffle(n, func(i, j int) { files[i], files[j] = files[j], files[i] })
	return files
}

// TestAnyOrder: in whatever order files are imported, in one import or in many, the series and the catalogue
// equal the ones of one import in order of time; and importing everything again adds nothing.
func TestAnyOrder(t *testing.T) {
	lines := madeUp(rand.New(rand.NewPCG(1, 2)))
	once := newLab(t)
	once.take("all", strings.Join(lines, ""))
	series, facts := once.dump(), once.everything()
	if strings.Count(series, "\n") < 150 || strings.Count(facts, "\n") < 60 {
		t.Fatalf("%d series, %d facts", strings.Count(series, "\n"), strings.Count(facts, "\n"))
	}
	for _, seed := range []uint64{2, 5} {
		r := rand.New(rand.NewPCG(seed, 7))
		l := newLab(t)
		files := split(r, lines, 2+r.IntN(3))
		taken := 0
		for i, f := range files {
			taken += l.take(fmt.Sprint(i), f).Taken
		}
		if got := l.dump(); got != series {
			t.Errorf("seed %d: series of %d files differ from those of one: %s", seed, len(files), first(got, series))
		}
		if got := l.everything(); got != facts {
			t.Errorf("seed %d: the catalogue of %d files differs: %s", seed, len(files), first(got, facts))
		}
		if res := l.take("again", strings.Join(lines, "")); res.Taken != 0 || res.Samples != 0 || len(res.Ranges) != 0 ||
			res.Known != taken {
			t.Errorf("seed %d: again, after %d: %+v", seed, taken, res)
		}
	}
}

// TestRealFilesInAnyOrder imports files of real sites, in the order of their names and in others.
func TestRealFilesInAnyOrder(t *testing.T) {
	var names []string
	for _, p := range []string{"testdata/*.csv", "../sonar/testdata/*.csv", "../sonar/testdata/*.json"} {
		list, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, list...)
	}
	var texts []string
	for _, n := range names {
		raw, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	if len(texts) < 15 {
		t.Fatalf("%d files", len(texts))
	}
	var series, facts string
	for seed := range uint64(2) {
		l := newLab(t)
		order := rand.New(rand.NewPCG(seed, 3)).Perm(len(texts))
		if seed == 0 {
			var all []string
			for i := range texts {
				all = append(all, names[i], texts[i])
			}
			r := l.take(all...)
			if r.Records != r.Taken+r.Known+r.Measured+r.Waiting+r.Heartbeats+r.Refused {
				t.Errorf("not every record is counted: %+v", r)
			}
			series, facts = l.dump(), l.everything()
			continue
		}
		for _, i := range order {
			l.take(names[i], texts[i])
		}
		if got := l.dump(); got != series {
			t.Errorf("order %v: series differ: %s", order, first(got, series))
		}
		if got := l.everything(); got != facts {
			t.Errorf("order %v: the catalogue differs: %s", order, first(got, facts))
		}
	}
}
