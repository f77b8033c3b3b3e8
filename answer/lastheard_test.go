package answer

import (
	"testing"

	"reckon/client"
)

// A job whose last report says that it runs, and that is not among those that run, is not
// taken for one that ended.
func TestLostSight(t *testing.T) {
	for _, c := range []struct {
		kind, state string
		running     bool
		want        bool
	}{
		{"slurm", "running", false, true}, {"slurm", "suspended", false, true}, {"slurm", "running", true, false},
		{"slurm", "completed", false, false}, {"slurm", "timeout", false, false}, {"slurm", "", false, false}, {"group", "running", false, false},
	} {
		if got := lostSight(&client.Workload{Kind: c.kind, State: c.state, Running: c.running}); got != c.want {
			t.Errorf("%s %q, running %v: %v", c.kind, c.state, c.running, got)
		}
	}
}
