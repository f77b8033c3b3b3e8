package ebpf

import (
	"os/exec"
	"testing"

	"reckon/sensor"
)

// TestStormOfEnds holds that reports of the dead are theirs, while the table of those
// between their end and the last of them is read as often as can be: the kernel gives
// their memory to others at any moment of it.
func TestStormOfEnds(t *testing.T) {
	s := openExits(t)
	var p sensor.Pass
	read(t, s, &p)
	const each, at = 300, 4
	done := make(chan error, at)
	for range at {
		go func() {
			// A shell that forks: each of its children ends at once, and is waited for.
			done <- exec.Command("sh", "-c", "i=0; while [ $i -lt 300 ]; do (:) ; i=$((i+1)); done").Run()
		}()
	}
	ends := 0
	for left := at; left > 0; {
		select {
		case err := <-done:
			left--
			if err != nil {
				t.Error(err)
			}
		default:
		}
		read(t, s, &p)
		for i := range p.Exited {
			q := &p.Exited[i]
			ends++
			const most = 3600e9 // nanoseconds, far beyond anything here
			if lived := q.UserNanos + q.SystemNanos; lived > most || q.ReadBytes > 1<<34 || q.WriteBytes > 1<<34 || q.WaitNanos > 1e15 {
				t.Errorf("%s, %d: user %d ns, system %d ns, wait %d ns, read %d, written %d bytes", q.Comm, q.PID, q.UserNanos, q.SystemNanos, q.WaitNanos, q.ReadBytes, q.WriteBytes)
			}
		}
	}
	if ends < each*at {
		t.Errorf("%d ends were reported of at least %d", ends, each*at)
	}
}
