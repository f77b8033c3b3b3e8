package efficiency

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"reckon/figure"
	"reckon/internal/phrase"
)

// reportNotStarted reports a workload that has not started, and why, and returns whether it is one.
func (j *judge) reportNotStarted() bool {
	u := &j.u
	switch {
	case u.CPUSeconds != nil:
		return false
	case u.State == "pending" && !u.Running:
		j.reportQueueing()
	case u.State == "started":
		j.addVerdict("queue", Info, 0, "seconds", "queue.array", nil)
	case u.State == "cancelled" && !u.Running && u.WallSeconds == 0:
		j.addVerdict("queue", Info, u.Waited, "seconds", "queue.cancelled", phrase.Words{"by": j.canceller(),
			"waited": phrase.Time(u.Waited)})
	case u.State == "deadline" && !u.Running && u.WallSeconds == 0:
		j.addVerdict("queue", Warning, u.Waited, "seconds", "queue.deadline", phrase.Words{"waited": phrase.Time(u.Waited)})
	default:
		return false
	}
	return true
}

// canceller returns the user who cancelled the job.
func (j *judge) canceller() string {
	if j.u.EndedByUser == "" {
		return ""
	}
	if _, err := strconv.Atoi(j.u.EndedByUser); err == nil { // accounting has no name, only a number
		return " by user ID " + j.u.EndedByUser
	}
	return " by " + j.u.EndedByUser
}

// reportEnding reports an unsuccessful end of the run. It reports the state first, and an exit code only if the state does
// not explain it. A deliberate end is no failure.
func (j *judge) reportEnding() {
	u := &j.u
	wall := phrase.Words{"wall": durationText(u.WallSeconds), "by": j.canceller()}
	say := func(kind string, s Severity, key string) { j.addVerdict(kind, s, u.WallSeconds, "seconds", key, wall) }
	oom := j.reportOutOfMemory()
	if u.Running {
		return
	}
	if n, ok := figure.Known(u.ProcessesLeft); ok && (u.State == "completed" || u.State == "failed") {
		defer j.addVerdict("left", Info, n, "count", "left", phrase.Words{"processes": quantity(n, "process was", "processes were")})
	}
	switch u.State {
	case "timeout":
		key, limit := "timeout", phrase.Text(nil)
		rest, rested := j.idleAtEnd()
		if rested {
			key = "timeout.rest"
		}
		if j.reportIdleAllocation() {
			key = "timeout.idle"
		}
		if v, ok := figure.Known(u.RequestSeconds); ok && v > 0 {
			limit = phrase.Join(" of ", phrase.Time(v))
		}
		j.addVerdict("timeout", Critical, u.WallSeconds, "seconds", key, phrase.Words{"limit": limit, "rest": phrase.Time(rest)})
	case "deadline":
		say("timeout", Critical, "timeout.deadline")
	case "node_fail", "boot_fail":
		say("node_fail", Critical, "node")
	case "launch_failed", "reconfig_fail":
		say("node_fail", Critical, "node.launch")
	case "preempted":
		say("preempted", Info, "preempted")
	case "cancelled":
		say("cancelled", Info, "cancelled")
	case "revoked":
		say("cancelled", Info, "revoked")
	case "out_of_memory":
		if !oom {
			j.addVerdict("oom", Critical, 1, "count", "oom.state", nil)
		}
	case "running", "suspended", "completing", "configuring", "resizing", "signaling", "stage_out":
		say("lost", Info, "lost")
	case "failed":
		if !oom && !j.reportFailedStep(Critical, "failed.step") {
			j.reportStoppedStep()
			j.reportFailure()
		}
	case "completed":
		if !oom && !j.reportFailedStep(Warning, "failed.hidden") {
			j.reportStoppedStep()
			j.reportExit()
		}
	default:
		if !oom {
			j.reportExit()
		}
	}
}

// reportRestarts reports that containers of pods ended again and again, or do not start.
func (j *judge) reportRestarts() {
	u := &j.u
	n, _ := figure.Known(u.Restarts)
	waits := u.Running && u.Reason != "" && u.State == ""
	end := phrase.Join("with exit code ", codeText(0))
	if u.ExitCode != nil && *u.ExitCode != 0 {
		end = phrase.Join("with exit code ", codeText(*u.ExitCode))
		if name := signalName(*u.ExitCode); name != "" {
			end = phrase.Join("by signal ", codeText(*u.ExitCode-128), " ("+name+")")
		}
	}
	if positive(u.OOMKills) {
		end = phrase.Join("for lack of memory")
	}
	words := phrase.Words{"times": quantity(n, "time", "times"), "end": end, "reason": u.Reason}
	switch r, _ := findReason(u.Reason); {
	case waits && r.never:
		j.addVerdict("queue", Warning, 1, "count", "queue.pod", phrase.Words{"why": r.text, "do": r.do})
	case waits && u.Reason != crashLoop && imageReasons[u.Reason] != "":
		words["do"] = imageReasons[u.Reason]
		j.addVerdict("restarts", Critical, n, "count", "image", words)
	case n == 0:
	case waits:
		j.addVerdict("restarts", Critical, n, "count", "restarts.wait", words)
	case u.Running:
		j.addVerdict("restarts", Warning, n, "count", "restarts", words)
	}
}

// crashLoop is the kubelet's reason for a container that waits because it ended again and again.
const crashLoop = "CrashLoopBackOff"

// imageReasons maps the kubelet's reasons for a container that cannot be started to advice
// (pkg/kubelet/images and container of Kubernetes).
var imageReasons = map[string]string{
	"ImagePullBackOff":           "is the name of the image right, and may the node read the registry?",
	"ErrImagePull":               "is the name of the image right, and may the node read the registry?",
	"InvalidImageName":           "the name of the image is not valid",
	"ErrImageNeverPull":          "the image is not on the node, and its policy is never to fetch it",
	"CreateContainerConfigError": "does it name a ConfigMap or a Secret that does not exist?",
	"CreateContainerError":       "the events of the pod have the error of the container runtime",
	"RunContainerError":          "the events of the pod have the error of the container runtime",
}

// NotStarted returns why a container cannot start, from the kubelet's waiting reason and the number of restarts. ok is
// false if the container is still starting, or has failed too few times to show that it always fails.
func NotStarted(reason string, restarts float64) (why phrase.Text, ok bool) {
	switch do := imageReasons[reason]; {
	case strings.HasPrefix(reason, "Unschedulable"):
		r, _ := findReason(reason)
		return phrase.Join(r.text), true
	case do != "":
		return phrase.Join(reason + "; " + do), true
	case reason == crashLoop && restarts >= 3:
		return phrase.Join(reason+": it ends again and again, ", phrase.Count(restarts), " times by now"), true
	}
	return nil, false
}

// reportOutOfMemory reports processes or a step that the kernel killed for lack of memory. It names a
// step started within the job, but not the batch script.
func (j *judge) reportOutOfMemory() bool {
	for i := range j.u.JobSteps {
		if s := &j.u.JobSteps[i]; s.ranOutOfMemory() && s.isUserStep() {
			key := "oom.step"
			if j.u.State == "completed" {
				key = "oom.step.hidden"
			}
			j.addVerdict("oom", Critical, 1, "count", key, phrase.Words{"step": s.describe(), "wall": durationText(s.WallSeconds)})
			return true
		}
	}
	if n, ok := figure.Known(j.u.OOMKills); ok && n > 0 {
		j.addVerdict("oom", Critical, n, "count", "oom.kills", phrase.Words{"processes": quantity(n, "process", "processes")})
		return true
	}
	return false
}

func (s *Step) ranOutOfMemory() bool { return s.State == "out_of_memory" }

// hasFailed reports whether a step failed. script is the exit code of the batch script, if known. Slurm reports every step ended by a
// signal as cancelled (observed with 22.05). Such a step failed if the signal indicates a crash, or if the batch script exited with the
// signal's number, like srun. Otherwise it was stopped deliberately, or still running when the script ended.
func (s *Step) hasFailed(script *int) bool {
	switch s.State {
	case "failed", "node_fail":
		return true
	case "completed":
		return s.ExitCode != nil && *s.ExitCode != 0
	case "cancelled":
		if s.ExitCode == nil || signalName(*s.ExitCode) == "" {
			return false
		}
		signal := *s.ExitCode - 128
		return script != nil && (*script == signal || *script == *s.ExitCode) || !slices.Contains([]int{1, 2, 9, 15}, signal)
	}
	return false
}

// isUserStep reports whether the step was started within the job, rather than created by the batch system.
func (s *Step) isUserStep() bool { return s.ID != "batch" && s.ID != "interactive" && s.ID != "extern" }

// describe returns the description of a step: "step 2 (solve)".
func (s *Step) describe() string {
	name := "step " + s.ID
	if s.ID == "batch" || s.ID == "interactive" {
		name = "its script"
	}
	if s.Name != "" && s.Name != s.ID {
		name += " (" + s.Name + ")"
	}
	return name
}

// reportFailedStep reports the first failed step, with the text under key, and returns whether there was one. It skips the
// batch script, because a script often fails only as a result of a step.
func (j *judge) reportFailedStep(severity Severity, key string) bool {
	var worst *Step
	for i := range j.u.JobSteps {
		s := &j.u.JobSteps[i]
		if s.hasFailed(j.u.ExitCode) && s.isUserStep() {
			worst = s
			break
		}
	}
	if worst == nil {
		return false
	}
	with, value := phrase.Text(nil), 0.0
	if worst.ExitCode != nil && *worst.ExitCode != 0 {
		with, value = phrase.Join(" with exit code ", codeText(*worst.ExitCode)), float64(*worst.ExitCode)
		if name := signalName(*worst.ExitCode); name != "" {
			with = phrase.Join(": signal ", codeText(*worst.ExitCode-128), " ("+name+") ended it")
		}
	}
	j.addVerdict("step", severity, value, "code", key, phrase.Words{"step": worst.describe(), "code": with})
	return true
}

// reportStoppedStep reports the first step that exceeded its own time limit or was cancelled, in a job that continued.
func (j *judge) reportStoppedStep() {
	for _, of := range []struct {
		state, key string
		severity   Severity
	}{{"timeout", "stopped.limit", Warning}, {"cancelled", "stopped.cancelled", Info}} {
		for i := range j.u.JobSteps {
			if s := &j.u.JobSteps[i]; s.State == of.state && s.isUserStep() && (s.Early || of.state != "cancelled") {
				j.addVerdict("step", of.severity, s.WallSeconds, "seconds", of.key, phrase.Words{"step": s.describe(),
					"wall": durationText(s.WallSeconds)})
				return
			}
		}
	}
}

// reportRequeue reports how the previous run of a requeued job ended.
func (j *judge) reportRequeue() {
	b := j.u.Before
	if b == nil {
		return
	}
	how := map[string]string{"preempted": "had to make room for a job of higher priority", "node_fail": "ended because a node failed",
		"requeued": "was queued again"}[b.State]
	if how == "" {
		how = "ended (" + strings.ReplaceAll(cmp.Or(b.State, "how is unknown"), "_", " ") + ")"
	}
	j.addVerdict("before", Info, b.WallSeconds, "seconds", "before", phrase.Words{"how": how, "wall": durationText(b.WallSeconds)})
}

// reportFailure reports the failure of a job from its state.
func (j *judge) reportFailure() {
	if j.u.ExitCode == nil || *j.u.ExitCode == 0 {
		j.addVerdict("exit", Critical, 0, "code", "failed.state", nil)
		return
	}
	j.reportExitCode(*j.u.ExitCode, Critical, "failed")
}

// reportExit reports the end of work without a batch system. A signal that requests termination counts as deliberate.
func (j *judge) reportExit() {
	if j.u.ExitCode == nil || *j.u.ExitCode == 0 {
		return
	}
	severity := Critical
	if code := *j.u.ExitCode; code == 128+2 || code == 128+15 || code == 128+1 {
		severity = Info
	}
	j.reportExitCode(*j.u.ExitCode, severity, "exit")
}

func codeText(v int) phrase.Text { return phrase.Number(float64(v), "code", strconv.Itoa(v)) }

func (j *judge) reportExitCode(v int, severity Severity, key string) {
	words := phrase.Words{"code": codeText(v), "means": codeMeaning(v, j.u.Batch)}
	if name := signalName(v); name != "" {
		key += ".signal"
		words["signal"], words["name"] = codeText(v-128), name
	}
	if j.u.Exactness[figure.ExitKey] != figure.Exact {
		whole := v + 128
		switch name := signalName(whole); {
		case name != "" && v > 2: // most programs fail with 1 or 2
			words["means"] = phrase.Join(", or by signal ", codeText(v), " ("+name+"): Slurm's accounting reports both as ", codeText(v))
		case whole == 255:
			words["code"], words["means"] = phrase.Join(codeText(v), " or ", codeText(whole)),
				phrase.Join(", which Slurm's accounting reports as ", codeText(v))
		}
	}
	j.addVerdict("exit", severity, float64(v), "code", key, words)
}

// codeMeaning returns the conventional meaning of an exit code, or empty.
func codeMeaning(code int, batch bool) string {
	switch {
	case code == 126:
		return ", which a shell returns for a command that it cannot execute"
	case code == 127:
		return ", which a shell returns for a command that it does not find"
	case code == 128+53 && batch: // sacct reports 0:53
		return " (0:53), which Slurm returns when it cannot set up a job: most often its output file or directory is not writable"
	}
	return ""
}

// signalName returns the signal that an exit code stands for; empty for other codes.
func signalName(code int) string {
	return map[int]string{129: "hangup", 130: "interrupted", 132: "illegal instruction", 134: "abort", 135: "bus error",
		136: "arithmetic error",
		137: "killed", 139: "segmentation fault", 141: "broken pipe", 143: "terminated", 152: "limit of CPU time"}[code]
}
