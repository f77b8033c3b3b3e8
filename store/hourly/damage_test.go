package hourly

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/store/storetest"
)

// A file that is changed, truncated or removed is detected; lost hours that cannot be made again
// are reported as a gap, and no hour has another value. Where the samples still exist, the hours
// are made again.
func TestRandomDamage(t *testing.T) {
	const days = 12
	r, whole := openRaw(t), filepath.Join(t.TempDir(), "hourly")
	s := openStore(t, r, whole)
	r.append(lset("c_total"), minutes(t0, t0+days*day+5*hour)...)
	r.append(lset("g"), minutes(t0, t0+days*day+5*hour)...)
	r.seal(t0 + days*day + 2*hour)
	pass(t, s)
	s.settled = 0
	pass(t, s) // joins the first eight days
	want, joined := kept(t, s, "c_total"), spans(s)
	if err := s.Close(); err != nil || len(want) != days*24+1 {
		t.Fatalf("%d hours, %v", len(want), err)
	}
	later := openRaw(t) // it has deleted the samples of those days
	later.append(lset("c_total"), minutes(t0+days*day, t0+days*day+5*hour)...)

	for seed := range storetest.Damages(t, os.Getenv(storetest.DamagesVariable), 8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "hourly")
			if out, err := exec.Command("cp", "-a", whole, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			what := storetest.DamageRandomFile(t, dir, seed)
			s := openStore(t, later, dir)
			have := map[int64]float64{}
			for _, p := range kept(t, s, "c_total") {
				have[p.t] = p.v
			}
			missing, untold := 0, 0
			for _, p := range want {
				v, ok := have[p.t]
				at := time.UnixMilli(p.t)
				switch {
				case !ok:
					if missing++; len(s.Gaps(at, at.Add(time.Millisecond))) == 0 {
						untold++
					}
				case v != p.v:
					t.Errorf("%s: %v at %s, not %v", what, v, at, p.v)
				}
				delete(have, p.t)
			}
			if untold > 0 || len(have) > 0 {
				t.Errorf("%s: %d hours are missing, %d of them untold, and %d came from nowhere; gaps %v", what, missing, untold, len(have), s.Gaps(time.UnixMilli(0), time.UnixMilli(math.MaxInt64/2)))
			}
			_, notes := query(t, s, "c_total", t0, t0+days*day, 6*hour, 0)
			if told := slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "are missing or incomplete") }); missing > 0 && !told {
				t.Errorf("%s: a query is told %q", what, notes)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := openStore(t, r, dir) // with the samples
			again.settled = 0
			pass(t, again)
			pass(t, again)
			if got := kept(t, again, "c_total"); !slices.EqualFunc(got, want, func(a, b sample) bool { return a.t == b.t && a.v == b.v }) || spans(again) != joined {
				t.Errorf("%s: made again: %d hours of %d, %s", what, len(got), len(want), spans(again))
			}
			if gaps := again.Gaps(time.UnixMilli(0), time.UnixMilli(math.MaxInt64/2)); len(gaps) > 0 {
				t.Errorf("%s: it was made again, and there are gaps: %v", what, gaps)
			}
			t.Logf("%s: %d hours missing", what, missing)
		})
	}
}

// A folder that is lost as a whole, and the note of how far hours were made, are reported at the start.
func TestMissingFiles(t *testing.T) {
	const days = 3
	r, dir := openRaw(t), filepath.Join(t.TempDir(), "hourly")
	open := func(r *raw) (*Store, string) {
		t.Helper()
		var log bytes.Buffer
		s, err := Open(Options{Dir: dir, Raw: r, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		if err != nil {
			t.Fatal(err)
		}
		return s, log.String()
	}
	s, log := open(r)
	r.append(lset("c_total"), minutes(t0, t0+days*day+5*hour)...)
	r.seal(t0 + days*day + 2*hour)
	pass(t, s)
	if err := s.Close(); err != nil || log != "" {
		t.Fatalf("%v, log %s", err, log)
	}
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
		t.Fatal(err)
	}
	s, log = open(r)
	if !strings.Contains(log, stateFile) || strings.Contains(log, "level=ERROR") {
		t.Errorf("log %s", log)
	}
	pass(t, s)
	if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	later := openRaw(t) // it has deleted the samples of those days
	later.append(lset("c_total"), minutes(t0+days*day, t0+days*day+5*hour)...)
	s, log = open(later)
	if gaps := s.Gaps(time.UnixMilli(t0), time.UnixMilli(t0+day)); len(gaps) != 1 || gaps[0].File != "hourly" || !strings.Contains(log, "file=hourly") {
		t.Errorf("gaps %v, log %s", gaps, log)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, log = open(later); log != "" {
		t.Errorf("it goes on: %s", log)
	}
	s.Close()
}
