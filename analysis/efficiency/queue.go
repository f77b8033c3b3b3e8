package efficiency

import (
	"strings"

	"reckon/internal/phrase"
)

// waitReason explains one of Slurm's pending reasons (squeue(1), JOB REASON CODES), or of Kubernetes's scheduler, with its message behind.
type waitReason struct {
	word string
	text string // why it waits
	do   string // required action; empty if waiting is enough
	// never is true if the job cannot start unless it is changed.
	never bool
}

const lessOrNever = "ask for less, or it will never start"

var waitReasons = []waitReason{
	{"Priority", "jobs of a higher priority are before it", "", false},
	{"Resources", "it is next, once its requested nodes are free", "", false},
	{"BeginTime", "it is not to start before the time that it was given", "", false},
	{"Dependency", "another job must end first", "", false},
	{"DependencyNeverSatisfied", "the job that it depends on ended in a way that it does not allow", "cancel it: it will never start",
		true},
	{"JobArrayTaskLimit", "as many tasks of its array run as it allows at a time", "", false},
	{"JobHeldUser", "its owner holds it", "`scontrol release` lets it go", false},
	{"JobHeldAdmin", "an administrator holds it", "an administrator must release it", false},
	{"PartitionTimeLimit", "it asks for more time than its partition allows", lessOrNever, true},
	{"PartitionNodeLimit", "it asks for more or fewer nodes than its partition allows", "change that, or it will never start", true},
	{"PartitionDown", "its partition accepts no jobs at present", "", false},
	{"PartitionInactive", "its partition starts no jobs at present", "", false},
	{"ReqNodeNotAvail", "nodes that it can only run on are down, drained or reserved", "", false},
	{"Licenses", "its requested licenses are in use", "", false},
	{"Reservation", "its reservation has not started", "", false},
	{"BadConstraints", "no node satisfies its request", "change that, or it will never start", true},
	{"InvalidAccount", "its account is not valid", "give another account, or it will never start", true},
	{"InvalidQOS", "its quality of service is not valid", "give another one, or it will never start", true},
	{"launch_failed_requeued_held", "it could not be started and is held", "an administrator must look at its node and release it", true},
	{"Unschedulable", "no node can take its pod", "ask for less, or add a node; the scheduler tries again by itself", true},
	{"SchedulingGated", "its pod is held back by a scheduling gate", "", false},
	{"Cleaning", "the run before it is still being cleared away", "", false},
}

// findReason returns the explanation of the scheduler's reason for a pending job. Limits of an account or a quality of
// service each have an explanation. A limit for a single job never resolves.
func findReason(reason string) (r waitReason, known bool) {
	reason, message, _ := strings.Cut(reason, ": ")
	word, _, _ := strings.Cut(strings.TrimSpace(reason), ",") // "ReqNodeNotAvail, UnavailableNodes:n1"
	for _, r := range waitReasons {
		if strings.EqualFold(r.word, word) {
			if message != "" {
				r.text += " (" + message + ")"
			}
			return r, true
		}
	}
	of := ""
	switch {
	case strings.HasPrefix(word, "QOS"):
		of = "quality of service"
	case strings.HasPrefix(word, "Assoc"):
		of = "account"
	}
	switch {
	case word == "" || word == "None":
		return waitReason{word: "None"}, false
	case of == "":
		return waitReason{word: word, text: "the batch system gives the reason " + word}, true
	case strings.Contains(word, "PerJob") || strings.HasPrefix(word, "QOSMin"):
		return waitReason{word, "it asks for more than its " + of + " allows for one job (" + word + ")", lessOrNever, true}, true
	}
	return waitReason{word: word, text: "its " + of + " is at a limit (" + word + ")"}, true
}

// Stuck returns why a job with a pending reason can never start; false if it can.
func Stuck(reason string) (why string, stuck bool) {
	r, _ := findReason(reason)
	return r.text, r.never
}

// reportQueueing reports the waiting time of a workload and its reason.
func (j *judge) reportQueueing() {
	r, known := findReason(j.u.Reason)
	if r.word == "BeginTime" && j.u.Before != nil { // job_requeue of slurmctld sets it
		r.text = "Slurm starts a job that was queued again after two minutes at the earliest"
	}
	key, severity := "queue.reason", Info
	switch {
	case !known:
		key = "queue.unknown"
	case r.do != "":
		key, severity = "queue.do", Warning
	}
	j.addVerdict("queue", severity, j.u.Waited, "seconds", key, phrase.Words{"waited": phrase.Time(j.u.Waited), "why": r.text, "do": r.do})
	if n := j.u.WaitingTasks; n != nil && *n > 0 {
		j.addVerdict("queue", Info, *n, "count", "queue.tasks", phrase.Words{"tasks": quantity(*n, "task", "tasks")})
	}
}
