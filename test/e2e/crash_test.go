//go:build e2e

package e2e

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKill ends `reckon up` with SIGKILL at random moments, twenty times, and counts:
// the store opens again every time, and no sample that was in it before is gone.
func TestKill(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	data := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	var before float64
	for round := range rounds {
		u := startUp(t, data, "--export", "2s", "--source", "procfs")
		samples := u.samples()
		if samples < before {
			t.Fatalf("round %d: %v samples of the ticks counter are left of the %v that were there before the kill", round, samples, before)
		}
		pause(time.Duration(2500+rnd.IntN(3000)) * time.Millisecond)
		before = u.samples()
		u.stop(syscall.SIGKILL)
	}
	u := startUp(t, data, "--export", "2s", "--source", "procfs")
	if got := u.samples(); got < before {
		t.Fatalf("after the last kill: %v samples, %v were there before", got, before)
	}
	t.Logf("%v exports survived %d kills", before, rounds)
}

// samples counts the exports in the store.
func (u *up) samples() float64 {
	u.t.Helper()
	for _, v := range u.prom(`sum(count_over_time(reckon_agent_ticks_total[1d]))`) {
		return v
	}
	return 0
}

// TestMistakes makes the mistakes that people make and reads the answers.
func TestMistakes(t *testing.T) {
	u := startUp(t, t.TempDir())
	fails := func(name, want string, args ...string) {
		t.Helper()
		out, err := exec.Command(program(t, "reckon"), args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: got %v and\n%s\nwant an error with %q", name, err, out, want)
		}
	}
	fails("a taken port", "is taken", "up", "--listen", u.addr, "--data", t.TempDir())
	fails("a second up on the same data", "is in use", "up", "--listen", "127.0.0.1:0", "--data", u.data)
	fails("no server", "no reckon server", "jobs", "--server", "127.0.0.1:1")
	fails("an unknown source", "procfs", "up", "--source", "magic", "--listen", "127.0.0.1:0", "--data", t.TempDir())
}
