package tsdb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"reckon/metric"
)

// residentSeries makes the test binary a process that keeps as many series for an hour
// of samples and prints its resident set; see TestMain.
const residentSeries = "RECKON_TSDB_RESIDENT_SERIES"

func printResident(n int) error {
	dir, err := os.MkdirTemp("", "reckon-tsdb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := Open(Options{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	empty := resident()
	series := fleet(n)
	var b metric.Batch
	for k := range 240 {
		fill(&b, time.Now().Add(time.Duration(k-240)*15*time.Second), series, float64(k)*1.37)
		if err := s.Append(context.Background(), external, &b); err != nil {
			return err
		}
	}
	full := resident()
	debug.FreeOSMemory()
	fmt.Printf("%.1f %.1f %.1f\n", empty/(1<<20), full/(1<<20), resident()/(1<<20))
	return nil
}

// BenchmarkResident reports the resident set of a process with nothing but a store:
// opened, after an hour of samples, and after memory not in use was given back.
func BenchmarkResident(b *testing.B) {
	for _, n := range []int{2_000, 20_000} {
		b.Run(fmt.Sprintf("series=%d", n), func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", residentSeries, n))
				out, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				var empty, full, idle float64
				if _, err := fmt.Sscan(strings.TrimSpace(string(out)), &empty, &full, &idle); err != nil {
					b.Fatalf("%q: %v", out, err)
				}
				b.ReportMetric(empty, "MiB-opened")
				b.ReportMetric(full, "MiB-hour")
				b.ReportMetric(idle, "MiB-idle")
			}
		})
	}
}
