package tsdb

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/store/storetest"
)

// The variable makes the test binary the process that is killed: it appends to the
// store in the directory named and prints the number of each batch once Append has
// returned.
const crashDir = "RECKON_TSDB_CRASH_DIR"

const crashSeries = 50

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := appendUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if n, err := strconv.Atoi(os.Getenv(residentSeries)); err == nil {
		if err := printResident(n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(fullDir); dir != "" {
		if err := openOnFullDisk(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if rate, err := strconv.ParseFloat(os.Getenv(churnGroups), 64); err == nil {
		if err := printChurn(rate); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func crashTime(batch int) time.Time {
	// The store begins at a fixed time, so that both processes know when batch n was.
	return time.Unix(1_760_000_000+int64(batch), 0)
}

func appendUntilKilled(dir string) error {
	s, err := Open(Options{Dir: dir})
	if err != nil {
		return err
	}
	var first int
	if raw, err := os.ReadFile(filepath.Join(dir, "next")); err == nil {
		first, _ = strconv.Atoi(string(raw))
	}
	series := fleet(crashSeries)
	var h metric.Histogram
	cores := metric.NewSeries(&metric.Desc{Name: "reckon_workload_cores", Kind: metric.NativeHistogram, Labels: []string{"workload"}}, "unit/a")
	var b metric.Batch
	out := bufio.NewWriter(os.Stdout)
	for n := first; ; n++ {
		fill(&b, crashTime(n), series, float64(n))
		h.Observe(float64(n % 7))
		b.AddHistogram(cores, &h)
		// Every tenth batch also carries a sample out of order.
		if err := s.Append(context.Background(), external, &b); err != nil {
			return err
		}
		if n%10 == 9 {
			fill(&b, crashTime(n-5).Add(500*time.Millisecond), series[:1], float64(n))
			if err := s.Append(context.Background(), external, &b); err != nil {
				return err
			}
		}
		fmt.Fprintln(out, n)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// TestKilledAtRandomMoments kills the writer twenty times and counts: every batch that
// Append took is there, whole, exactly once. Between rounds the end of the log is
// also torn, as a power cut would, behind what was acknowledged.
func TestKilledAtRandomMoments(t *testing.T) {
	if testing.Short() {
		t.Skip("starts twenty processes")
	}
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	acked, next := []int{}, 0
	for round := range 20 {
		if err := os.WriteFile(filepath.Join(dir, "next"), []byte(strconv.Itoa(next)), 0o600); err != nil {
			t.Fatal(err)
		}
		acked = append(acked, runAndKill(t, dir, 1+rng.IntN(40), time.Duration(rng.IntN(3000))*time.Microsecond)...)
		next = acked[len(acked)-1] + 100 // what was not acknowledged may be there or not
		if round%3 != 0 {
			tearLog(t, dir, rng)
		}
	}
	s := open(t, Options{Dir: dir})
	got := storetest.Read(t, s, crashTime(0), crashTime(next), storetest.MatchName(cpuDesc.Name))
	if len(got) != crashSeries {
		t.Fatalf("%d series, want %d", len(got), crashSeries)
	}
	lost := 0
	for k, points := range got {
		at := map[int64]float64{}
		for _, p := range points {
			if _, twice := at[p.T]; twice {
				t.Errorf("%s: two samples at %d", k, p.T)
			}
			at[p.T] = p.V
		}
		for _, n := range acked {
			if v, ok := at[crashTime(n).UnixMilli()]; !ok || v != float64(n) {
				lost++
			}
		}
	}
	ooo := 0
	for _, p := range got[fleetLabels(0)] {
		if p.T%1000 == 500 {
			ooo++
		}
	}
	want := 0
	for _, n := range acked {
		if n%10 == 9 {
			want++
		}
	}
	if lost > 0 || ooo < want {
		t.Errorf("lost %d of %d acknowledged samples, and %d of %d out of order", lost, len(acked)*crashSeries, want-ooo, want)
	}
	for k, p := range storetest.Read(t, s, crashTime(0), crashTime(next), storetest.MatchName("reckon_workload_cores")) {
		if len(p) < len(acked) {
			t.Errorf("%s: %d histograms, want at least %d", k, len(p), len(acked))
		}
	}
	t.Logf("20 kills, %d batches acknowledged, %d samples lost", len(acked), lost)
}

func fleetLabels(i int) string {
	s := fleet(i + 1)[i]
	tn := &tenant{external: external, refs: map[*metric.Series]*seriesRef{}}
	return tn.add(s).labels.String()
}

// runAndKill starts the writer, waits for a number of acknowledgements and a little
// longer, kills it, and returns the acknowledged numbers.
func runAndKill(t *testing.T, dir string, acks int, then time.Duration) []int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got []int
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			break // the line was cut by the kill
		}
		got = append(got, n)
		if len(got) == acks {
			time.AfterFunc(then, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait()
	if len(got) < acks {
		t.Fatalf("writer ended by itself after %d batches: %s", len(got), stderr.String())
	}
	return got
}

// tearLog appends the beginning of a record to the last segment of the log, as it is
// left when power fails in the middle of a write.
func tearLog(t *testing.T, dir string, rng *rand.Rand) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "wal", "0*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no log segments: %v", err)
	}
	f, err := os.OpenFile(segments[len(segments)-1], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	junk := make([]byte, 20+rng.IntN(200))
	for i := range junk {
		junk[i] = byte(rng.UintN(256))
	}
	junk[0] = 1 // a full record
	if _, err := f.Write(junk); err != nil {
		t.Fatal(err)
	}
}
