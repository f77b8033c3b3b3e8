package importbench

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"reckon/interop/sonar"
	"reckon/server"
	"reckon/web/client"
)

// total is the sum of a job. Peak memory is in whole GiB, rounded up, according to sonalyze it.
type total struct{ cpu, peak, gpu float64 }

// clocks are the records of a job: what the CPU clocks of its processes add up to.
type clocks struct {
	byTime map[string]float64 // sum over the processes of a node at a time
	procs  map[string]string  // which they were
	said   map[string][]clock // of a program of a process, or of several of one name
	resid  bool
}

type clock struct {
	at  int64
	cpu float64
}

// back adds up the clocks that had gone back at a reading.
func (r *clocks) back() (sum float64, any bool) {
	for _, list := range r.said {
		slices.SortStableFunc(list, func(a, b clock) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(list); i++ {
			if list[i].cpu < list[i-1].cpu {
				sum, any = sum+list[i].cpu, true
			}
		}
	}
	return sum, any
}

// TestSonalyze holds totals of jobs beside sonalyze's, over the same records of
// sonar. The environment names the program:
//
//	SONALYZE=/path/to/sonalyze go test ./test/bench/import -run Sonalyze -v
//
// It is built with "go build" in code/sonalyze of github.com/NAICNO/Jobanalyzer (compared
// at 381ec7a2c208).
//
//   - Peak memory is the same, in sonalyze's whole GiB.
//   - CPU time of a job that was read once is the same. Of one that was read more often
//     sonalyze adds up what the clocks of its processes showed at every reading, although each
//     holds the ones before it, without readings in which a clock had gone back; the test
//     shows that its figure is that sum, to the second. Where the processes stayed the same
//     and no clock went back reckon's is what the clocks showed last.
//   - GPU time is shown and not compared: sonalyze multiplies the mean of all readings with
//     the time between first and last; reckon gives each reading the time before it.
func TestSonalyze(t *testing.T) {
	program := os.Getenv("SONALYZE")
	if program == "" {
		t.Skip("SONALYZE names no program to compare with: build sonalyze of github.com/NAICNO/Jobanalyzer")
	}
	for _, c := range []struct {
		file  string
		batch bool
	}{
		{"../../../internal/sonar/testdata/oldfmt_samples.csv", true},
		{"../../../internal/sonar/testdata/parse-data.csv", false},
		{"../../../internal/importer/testdata/r630_compress_hosts.csv", true},
		{"../../../internal/importer/testdata/merge.csv", false},
	} {
		t.Run(filepath.Base(c.file), func(t *testing.T) { compare(t, program, c.file, c.batch) })
	}
}

func compare(t *testing.T, program, file string, batch bool) {
	theirs, raw, ours := askSonalyze(t, program, file, batch), readAll(t, file, batch), askReckon(t, file, batch)
	keys := make([]string, 0, len(theirs))
	for key := range theirs {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if len(keys) == 0 {
		t.Fatal("sonalyze names no job")
	}
	compared := 0
	for _, key := range keys {
		their, r := theirs[key], raw[key]
		if strings.HasSuffix(key, "/0") {
			continue // sonalyze makes one job of all processes that have none; reckon does not
		}
		our, ok := ours[key]
		if !ok || r == nil {
			t.Errorf("%s: sonalyze knows it, reckon does not", key)
			continue
		}
		compared++
		t.Logf("%-28s CPU %10.0f s, sonalyze %10.0f s; peak %4.0f GiB, sonalyze %4.0f GiB; GPU %6.0f s, sonalyze %6.0f s (%d readings)",
			key, our.cpu, their.cpu, our.peak, their.peak, our.gpu, their.gpu, len(r.byTime))
		if r.resid && our.peak != their.peak {
			t.Errorf("%s: peak memory %g GiB, sonalyze says %g", key, our.peak, their.peak)
		}
		fell, _ := r.back()
		sum := -fell
		for _, v := range r.byTime {
			sum += v
		}
		if math.Abs(their.cpu-sum) > 1 {
			t.Errorf("%s: sonalyze says %g s, not the sum over all readings, %g: it is explained wrongly", key, their.cpu, sum)
		}
		if last, same := r.last(); same && math.Abs(our.cpu-last) > 1 {
			t.Errorf("%s: CPU %g s, the clocks of its processes said %g at last", key, our.cpu, last)
		}
	}
	t.Logf("%d jobs compared", compared)
}

// last is the reading of the clocks at the last reading of each node; same is false where
// processes came or went, or a clock went back.
func (r *clocks) last() (sum float64, same bool) {
	newest, first := map[string]string{}, map[string]string{}
	_, back := r.back()
	same = !back
	for at := range r.byTime {
		node, _, _ := strings.Cut(at, " ")
		newest[node] = max(newest[node], at)
		if first[node] == "" {
			first[node] = r.procs[at]
		}
		same = same && first[node] == r.procs[at]
	}
	for _, at := range newest {
		sum += r.byTime[at]
	}
	return sum, same
}

func key(batch bool, node, job string) string {
	if batch {
		return "slurm/" + job
	}
	return node + "/" + job
}

func askSonalyze(t *testing.T, program, file string, batch bool) map[string]total {
	t.Helper()
	merge := "-merge-none"
	if batch {
		merge = "-merge-all"
	}
	out, err := exec.CommandContext(t.Context(), program, "jobs", merge, "-user", "-", "-min-samples=1", "-f", "2020-01-01",
		"-fmt=csv,job,Hosts,CpuTime/sec,ResidentMemPeakGB,GpuTime/sec", "--", file).Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]total{}
	for _, row := range rows {
		var v [3]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(row[i+2], 64); err != nil {
				t.Fatal(err)
			}
		}
		k := key(batch, row[1], row[0])
		one := all[k] // users of one job number are apart there
		all[k] = total{one.cpu + v[0], max(one.peak, v[1]), one.gpu + v[2]}
	}
	return all
}

func readAll(t *testing.T, file string, batch bool) map[string]*clocks {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	all := map[string]*clocks{}
	h := sonar.Handler{Sample: func(s *sonar.Sample) error {
		for i := range s.Procs {
			p := &s.Procs[i]
			k := key(batch, s.Node, strconv.FormatUint(p.Job, 10))
			r := all[k]
			if r == nil {
				r = &clocks{byTime: map[string]float64{}, procs: map[string]string{}, said: map[string][]clock{}}
				all[k] = r
			}
			at := fmt.Sprintf("%s %d", s.Node, s.Time)
			r.byTime[at] += max(p.CPU, 0)
			stream := fmt.Sprintf("%s/%d/%s", s.Node, p.PID, p.Cmd)
			r.said[stream] = append(r.said[stream], clock{s.Time, p.CPU})
			r.procs[at] += fmt.Sprintf("%d/%d/%s/%d;", p.PID, p.PPID, p.Cmd, p.Rolled)
			r.resid = r.resid || p.Resident >= 0
		}
		return nil
	}}
	if err := sonar.NewReader(sonar.Options{}).Read(in, &h); err != nil {
		t.Fatal(err)
	}
	return all
}

func askReckon(t *testing.T, file string, batch bool) map[string]total {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	input := client.ImportFile{Name: file, Open: func() (io.ReadCloser, error) { return os.Open(file) }}
	if _, err := server.ImportFiles(t.Context(), data, nil, client.ImportOptions{Format: "sonar", Batch: batch}, []client.ImportFile{input}); err != nil {
		t.Fatal(err)
	}
	s, err := server.Open(t.Context(), server.Config{Listen: "127.0.0.1:0", Data: data, Receive: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	c, err := client.New("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Workloads(t.Context(), client.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]total{}
	for _, w := range list.Workloads {
		k := w.ID
		if parts := strings.Split(w.ID, "/"); w.Kind == "group" {
			job, _, _ := strings.Cut(parts[2], "-")
			k = key(false, parts[1], job)
		}
		one := all[k]
		if w.CPUSeconds != nil {
			one.cpu += *w.CPUSeconds
		}
		if w.MemoryPeakBytes != nil {
			one.peak = max(one.peak, math.Ceil(*w.MemoryPeakBytes/(1<<30)))
		}
		if w.GPUSeconds != nil {
			one.gpu += *w.GPUSeconds
		}
		all[k] = one
	}
	return all
}
