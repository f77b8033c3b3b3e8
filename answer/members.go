package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/hostlist"
	"reckon/internal/phrase"
	"reckon/workload"
)

// ParseMembers parses a reference to an array or heterogeneous job: slurm/4, 4 or 4_[1-4,7]. It
// returns the id of the whole job and the ids of the selected members, nil for all.
func ParseMembers(text string) (id string, only map[string]bool, err error) {
	name := workload.JobNumber(text)
	number, tasks, some := strings.Cut(name, "_[")
	if number == "" || strings.Trim(number, "0123456789") != "" || some && !strings.HasSuffix(tasks, "]") {
		return "", nil, Invalid("give a number of the batch system, such as 4, or 4_[1-4]",
			fmt.Errorf("%q is no array and no heterogeneous job", text))
	}
	if some {
		names, err := hostlist.Expand(name)
		if err != nil {
			return "", nil, Invalid("give numbers of tasks, such as 4_[1-4,7]", fmt.Errorf("%q: %w", text, err))
		}
		only = make(map[string]bool, len(names))
		for _, n := range names {
			only[string(workload.JobID(n))] = true
		}
	}
	return string(workload.JobID(number)), only, nil
}

// Members summarizes the tasks of a job array, or the parts of a heterogeneous job. runs are of one site, the latest
// first; only, if not nil, names the members. It skips runs with another owner or name than the latest one, because job
// numbers are reused. ok is false if no member is left.
func Members(id string, runs []wire.Workload, only map[string]bool) (m wire.Members, ok bool) {
	m = wire.Members{ID: id, Kind: "array", States: []wire.StateCount{}, Verdicts: []wire.Verdict{}, Members: []wire.Workload{}}
	seen := map[string]bool{}
	var rest *float64 // tasks that wait
	for _, w := range runs {
		if seen[w.ID] || only != nil && w.ID != id && !only[w.ID] {
			continue
		}
		if len(seen) > 0 && (w.Owner != m.Owner || w.Name != m.Name) {
			continue
		}
		if len(seen) == 0 {
			m.Name, m.Owner, m.Site, m.Account, m.Partition = w.Name, w.Owner, w.Site, w.Account, w.Partition
		}
		seen[w.ID] = true
		if w.ID == id { // it represents the pending tasks
			if m.Waiting = w.State == "pending" && w.End == nil; m.Waiting {
				rest = w.WaitingTasks
			}
			continue
		}
		if strings.HasPrefix(w.ID, id+"+") {
			m.Kind = "heterogeneous"
		}
		m.Members = append(m.Members, w)
	}
	slices.SortStableFunc(m.Members, func(a, b wire.Workload) int { return cmp.Compare(memberNumber(a.ID, id), memberNumber(b.ID, id)) })
	if len(m.Members) == 0 {
		return m, false
	}
	ended := !m.Waiting
	counts := map[string]int{}
	for i := range m.Members {
		w := &m.Members[i]
		counts[cmp.Or(w.State, stateWord(w))]++
		addMember(&m.Sums, w)
		keepEarliest(&m.Submit, w.Submit)
		if w.WallSeconds > 0 || w.Running {
			keepEarliest(&m.Start, &w.Start)
		}
		ended = ended && w.End != nil
		if w.End != nil && (m.End == nil || w.End.After(*m.End)) {
			m.End = w.End
		}
	}
	if !ended {
		m.End = nil
	}
	if n := waitingTasks(&m, rest); only == nil && n > 0 {
		counts["pending"] += n
	}
	for state, n := range counts {
		m.States = append(m.States, wire.StateCount{State: state, Count: n})
	}
	slices.SortFunc(m.States, func(a, b wire.StateCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.State, b.State))
	})
	m.Verdicts = memberVerdicts(&m)
	return m, true
}

// waitingTasks returns the number of waiting tasks of an array. They include tasks that only their node has reported.
func waitingTasks(m *wire.Members, tasks *float64) int {
	n := int(orZero(tasks))
	for i := range m.Members {
		if m.Members[i].Submit == nil {
			n--
		}
	}
	return n
}

// memberNumber returns the number of a member, the suffix after the id of the whole job.
func memberNumber(member, id string) int {
	n, err := strconv.Atoi(strings.TrimLeft(strings.TrimPrefix(member, id), "_+"))
	if err != nil {
		return -1
	}
	return n
}

func stateWord(w *wire.Workload) string {
	if w.Running {
		return "running"
	}
	return "ended"
}

func keepEarliest(to **time.Time, t *time.Time) {
	if t != nil && (*to == nil || t.Before(**to)) {
		at := *t
		*to = &at
	}
}

// addMember adds the figures of a member.
func addMember(s *wire.MemberSums, w *wire.Workload) {
	s.WallSeconds += w.WallSeconds
	s.LongestSeconds = max(s.LongestSeconds, w.WallSeconds)
	figure.Plus(&s.CPUSeconds, w.CPUSeconds)
	figure.Plus(&s.GPUSeconds, w.GPUSeconds)
	figure.Plus(&s.EnergyJoules, w.EnergyJoules)
	figure.Plus(&s.ReadBytes, w.ReadBytes)
	figure.Plus(&s.WriteBytes, w.WriteBytes)
	figure.Plus(&s.OOMKills, w.OOMKills)
	if w.MemoryPeakBytes != nil {
		s.MemoryPeakBytes = new(max(orZero(s.MemoryPeakBytes), *w.MemoryPeakBytes))
	}
	held := ranSeconds(w)
	if w.CPUSeconds != nil {
		s.Measured++
	}
	if cores, _ := w.GivenCores(); cores != nil && held > 0 {
		figure.Plus(&s.CoreSeconds, new(*cores*held))
	}
	if gpus, _ := w.GivenGPUs(); gpus != nil && held > 0 {
		figure.Plus(&s.GPUHeldSeconds, new(*gpus*held))
	}
}

// failedStates are the states with named members.
var failedStates = []string{"failed", "timeout", "out_of_memory", "node_fail", "boot_fail", "deadline"}

// maxNamedMembers is the number of members named in a sentence.
const maxNamedMembers = 5

// memberVerdicts reports the failed members, and the share of its core time that the whole job used.
func memberVerdicts(m *wire.Members) []wire.Verdict {
	out := []wire.Verdict{}
	word := map[string]string{"array": "task", "heterogeneous": "component"}[m.Kind]
	var failed []string
	used, given := 0.0, 0.0
	allocated := true
	whole := wire.Workload{ID: m.ID, End: m.End}
	if m.Start != nil {
		whole.Start = *m.Start
	}
	say := func(kind, severity, key string, value float64, unit string, words phrase.Words) {
		s := sentences.Sentence(key, words)
		out = append(out, wire.Verdict{Kind: kind, Severity: severity, Text: s.String(), Sentence: sentenceOf(s, &whole), Value: value,
			Unit: unit})
	}
	for i := range m.Members {
		w := &m.Members[i]
		if w.Seen.After(whole.Seen) {
			whole.Seen = w.Seen
		}
		if slices.Contains(failedStates, w.State) {
			failed = append(failed, workload.JobNumber(w.ID)+" ("+strings.ReplaceAll(w.State, "_", " ")+")")
		}
		if cores, by := w.GivenCores(); cores != nil && *cores > 0 && w.CPUSeconds != nil && w.WallSeconds > 0 {
			used, given = used+*w.CPUSeconds, given+*cores*ranSeconds(w)
			allocated = allocated && by
		}
	}
	if n := len(failed); n > 0 {
		more := phrase.Text(nil)
		if n > maxNamedMembers {
			more = phrase.Join(" and ", phrase.Count(float64(n-maxNamedMembers)), " more")
		}
		say("members", "critical", "members.failed", float64(n), "count", phrase.Words{"failed": phrase.Count(float64(n)),
			"tasks": phrase.Number(float64(len(m.Members)), "count", fmt.Sprintf("%d %ss", len(m.Members), word)),
			"names": strings.Join(failed[:min(n, maxNamedMembers)], ", "), "more": more})
	}
	if given > 0 {
		m.Sums.CPUShare = new(used / given)
		was := "were allocated"
		if !allocated {
			was = "asked for"
		}
		say("cores", "info", "members.cores", used/given, "ratio",
			phrase.Words{"tasks": word + "s", "share": phrase.Percent(used / given), "was": was})
	}
	return out
}

// ranSeconds returns the wall time of a workload without the time that the scheduler suspended it. A time limit and an
// allocation exclude suspended time as well.
func ranSeconds(w *wire.Workload) float64 {
	return max(w.WallSeconds-orZero(w.SuspendedSeconds), 0)
}
