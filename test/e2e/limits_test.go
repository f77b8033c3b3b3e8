//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"reckon/figure"
)

// TestLimits holds, for each source of processes, that no figure which its limits make wrong is said to be exact: what ended threads waited
// and wrote after their process had waited for a child, and what was deleted before it reached storage.
func TestLimits(t *testing.T) {
	for name, args := range map[string][]string{
		"ebpf":      {"--source", "ebpf"},
		"taskstats": {"--source", "procfs", "--set", "exits=taskstats"},
		"procfs":    {"--source", "procfs", "--set", "exits=none"},
	} {
		t.Run(name, func(t *testing.T) {
			u := startUp(t, t.TempDir(), append(args, "--export", "5s")...)
			pause(3 * time.Second)
			for what, more := range map[string]string{"threads that write": "-hold=2s", "threads that delete": "-delete"} {
				l := run(t, "-procs", "1", "-burn", "1100ms", "-threads", "100", "-dir", t.TempDir(), "-hold", "2s", more)
				w := u.find(l.PGID)
				exact := 0
				for key, c := range map[string]struct {
					got  *float64
					want float64
				}{"cpu_wait_seconds": {w.CPUWaitSeconds, l.Wait}, "io_write_bytes": {w.WriteBytes, l.Reached}} {
					degree := w.Exactness[key]
					if c.got == nil {
						t.Logf("%s: %s is not known", what, key)
						continue
					}
					slack := c.want/20 + 1<<20
					if key == "cpu_wait_seconds" {
						slack = c.want/2 + 1 // other threads of the load wait, too
					}
					low, high := *c.got < c.want-slack, *c.got > c.want+slack
					said := fmt.Sprintf("%s: %s is %.4g, %v; the kernel says %.4g", what, key, *c.got, degree, c.want)
					t.Log(said)
					if low && degree != figure.AtLeast && degree != figure.Estimated || high && degree != figure.AtMost && degree != figure.Estimated {
						t.Error(said)
					}
					if degree == figure.Exact {
						exact++
					}
				}
				if name == "ebpf" && more != "-delete" && exact == 0 {
					t.Errorf("%s: nothing is exact", what)
				}
			}
		})
	}
}
