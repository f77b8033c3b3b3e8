package importer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reckon/interop/sonar"
)

// jobTotals returns the CPU seconds of the jobs in some lines of sonar, by node and id, as counted by
// the importer.
func jobTotals(t testing.TB, lines []string) map[string]float64 {
	t.Helper()
	im := New(Options{Clock: now.Local, Batch: true})
	im.sites[""] = &siteState{Tasks: map[uint64][]task{}}
	err := im.reader.Read(strings.NewReader(strings.Join(lines, "")), &sonar.Handler{Sample: im.addSample, Sysinfo: im.addSysinfo})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for p, times := range im.buf {
		node := &nodeState{Jobs: map[jobKey]*jobState{}}
		for i, at := range sortedKeys(times) {
			if i%3 == 2 { // the state stored between imports is equivalent to that in memory
				if node, err = unpackState(node.packState()); err != nil {
					t.Fatal(err)
				}
			}
			im.addReading(p, node, at, times[at])
			for _, j := range node.Jobs {
				if j.HasCPU {
					id := j.ID
					if j.Kind == "group" { // without an epoch its id contains the time of the first reading
						id = id[:strings.LastIndexByte(id, '-')]
					}
					out[p.node+" "+id] = j.CPU
				}
			}
		}
	}
	return out
}

// TestMissingLines: a missing line does not change the use of its job, unless it is the last line of
// a process: then at most that process's use is missing, and there is never an excess.
func TestMissingLines(t *testing.T) {
	files := map[string][]string{}
	for _, p := range []string{"testdata/*.csv", "../sonar/testdata/*.csv", os.Getenv("RECKON_SONAR_CSV")} {
		names, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.Contains(name, "regress_6") { // constructed by hand: the CPU time of a process falls
				continue
			}
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = strings.SplitAfter(string(raw), "\n")
		}
	}
	for seed := range uint64(4) {
		lines, used := simulatedTree(rand.New(rand.NewPCG(seed, 11)))
		if got := jobTotals(t, lines)["n1 slurm/7"]; math.Abs(got-used) > 1e-6*used {
			t.Errorf("simulated %d: %g CPU seconds, used were %g", seed, got, used)
		}
		files[fmt.Sprint("simulated ", seed)] = lines
	}
	tried := 0
	for _, name := range sortedKeys(files) {
		lines := files[name]
		whole := jobTotals(t, lines)
		for i, line := range lines {
			tried++
			less := jobTotals(t, slices.Concat(lines[:i], lines[i+1:]))
			cpu, last := isLast(t, lines, i)
			for job, v := range whole {
				if d := v - less[job]; math.Abs(d) > 1e-6 && !(last && d > -20 && d <= cpu) {
					t.Errorf("%s, without line %d: %s used %g, want %g: %.200s", name, i+1, job, less[job], v, line)
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("%d lines were tried", tried)
	}
}

// isLast returns the CPU time in a line, and whether it is the last line of its process.
func isLast(t testing.TB, lines []string, at int) (cpu float64, last bool) {
	t.Helper()
	type seen struct {
		host string
		job  uint64
		proc procKey
	}
	var key seen
	var when int64
	last = true
	each := func(text string, f func(k seen, t int64, p *sonar.Process)) {
		_ = sonar.NewReader(sonar.Options{}).Read(strings.NewReader(text), &sonar.Handler{Sample: func(s *sonar.Sample) error {
			for i := range s.Procs {
				f(seen{s.Node, s.Procs[i].Job, toProcKey(&s.Procs[i])}, s.Time, &s.Procs[i])
			}
			return nil
		}})
	}
	each(lines[at], func(k seen, t int64, p *sonar.Process) { key, when, cpu = k, t, p.CPU })
	each(strings.Join(slices.Concat(lines[:at], lines[at+1:]), ""), func(k seen, t int64, p *sonar.Process) {
		if k == key && t > when {
			last = false
		}
	})
	return cpu, last
}

// simulatedTree returns sonar's output for a job with processes that start children that end
// and are waited for: a tree of three levels, some of it busy.
// It also returns the CPU seconds used.
func simulatedTree(r *rand.Rand) (lines []string, used float64) {
	type proc struct {
		pid, ppid, from, to int
		pace                float64
		own, waited         float64
	}
	procs := []*proc{{pid: 100, ppid: 1, to: 99, pace: float64(r.IntN(2)) * 7}}
	for i := range 24 {
		parent := procs[r.IntN(min(len(procs), 4))]
		from := parent.from + r.IntN(10)
		procs = append(procs, &proc{pid: 101 + i, ppid: parent.pid, from: from, to: min(parent.to-1, from+1+r.IntN(14)),
			pace: float64(r.IntN(50)) / 10})
	}
	byPID := map[int]*proc{}
	for _, p := range procs {
		byPID[p.pid] = p
	}
	for at := range 24 {
		for _, p := range slices.Backward(procs) { // children end before their parents wait
			switch {
			case at >= p.from && at < p.to:
				p.own += 300 * p.pace
			case at == p.to && p.ppid != 1:
				byPID[p.ppid].waited += p.own + p.waited
			}
		}
		for _, p := range procs {
			if at >= p.from && at < p.to {
				lines = append(lines, said(at, 7, uint32(p.pid), uint32(p.ppid), fmt.Sprint("c", p.pid%3), int(p.own+p.waited), ",epoch=0"))
			}
		}
	}
	for _, p := range procs {
		used += p.own
	}
	return lines, used
}
