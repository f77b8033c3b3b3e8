package efficiency

import "strings"

// ran begins a sentence about how long it took.
func ran(running bool) string {
	if running {
		return "it has run for"
	}
	return "it ran for"
}

// reasons are what Slurm's words for waiting mean (squeue(1), JOB REASON CODES), and
// whether somebody has to do something. Others are limits, see queued.
var reasons = []struct {
	word, text string
	stuck      bool
}{
	{"Priority", "jobs of a higher priority are before it", false},
	{"Resources", "it is next, once the nodes that it asked for are free", false},
	{"BeginTime", "it is not to begin before a time that it was given", false},
	{"Dependency", "another job must come first", false},
	{"DependencyNeverSatisfied", "the job that it depends on ended otherwise than it asked for; it will never begin, cancel it", true},
	{"JobArrayTaskLimit", "as many tasks of its array run as it allows at a time", false},
	{"JobHeldUser", "its owner holds it; `scontrol release` lets it go", true},
	{"JobHeldAdmin", "an administrator holds it, and must release it", true},
	{"PartitionTimeLimit", "it asks for more time than its partition allows; ask for less, or it will never begin", true},
	{"PartitionNodeLimit", "it asks for more or fewer nodes than its partition allows; change that, or it will never begin", true},
	{"PartitionDown", "its partition takes no jobs at present", false},
	{"PartitionInactive", "its partition begins no jobs at present", false},
	{"ReqNodeNotAvail", "nodes that it can only run on are down, drained or reserved", false},
	{"Licenses", "licenses that it asked for are in use", false},
	{"Reservation", "its reservation has not begun", false},
	{"BadConstraints", "no node has what it asked for; change that, or it will never begin", true},
	{"launch_failed_requeued_held", "it could not be started and is held; an administrator must look at its node", true},
	{"Cleaning", "the run before it is still being cleared away", false},
}

// queued says for how long a workload has waited, and why.
func (j *judge) queued() {
	word, _, _ := strings.Cut(strings.TrimSpace(j.u.Reason), ",") // "ReqNodeNotAvail, UnavailableNodes:n1"
	waited := duration(j.u.Waited)
	for _, r := range reasons {
		if strings.EqualFold(r.word, word) {
			severity := Info
			if r.stuck {
				severity = Warning
			}
			j.say("queue", severity, j.u.Waited, "seconds", "it has waited for %s: %s", waited, r.text)
			return
		}
	}
	switch {
	case word == "" || word == "None":
		j.say("queue", Info, j.u.Waited, "seconds", "it has waited for %s; why, nobody said", waited)
	case strings.HasPrefix(word, "QOS") || strings.HasPrefix(word, "Assoc"):
		of := "quality of service"
		if word[0] == 'A' {
			of = "account"
		}
		j.say("queue", Info, j.u.Waited, "seconds", "it has waited for %s: its %s is at a limit (%s)", waited, of, word)
	default:
		j.say("queue", Info, j.u.Waited, "seconds", "it has waited for %s: the batch system says %s", waited, word)
	}
}
