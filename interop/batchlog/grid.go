package batchlog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/interop/sacct"
	"reckon/interop/slurmtext"
)

// Fields of accounting(5), from 0 on.
const (
	gridQueue, gridHost, gridOwner, gridName, gridNumber, gridAccount = 0, 1, 3, 4, 5, 6
	gridSubmit, gridStart, gridEnd, gridFailed, gridExit              = 8, 9, 10, 11, 12
	gridProject, gridPE, gridSlots, gridTask, gridCPU, gridCategory   = 31, 33, 34, 35, 36, 39
	gridPETask, gridFields                                            = 41, 37
	univaFields, univaRSS, univaWall                                  = 60, 47, 52 // Univa adds the highest resident memory
)

// isGrid reports whether a record is one of Grid Engine, by the number of its fields and the fields that are numbers.
func isGrid(f []string) bool {
	if len(f) < gridFields {
		return false
	}
	for _, i := range []int{gridNumber, 7, gridSubmit, gridStart, gridEnd} {
		if _, err := strconv.ParseInt(f[i], 10, 64); err != nil {
			return false
		}
	}
	return true
}

// grid reads records. Separate records of a parallel job's tasks precede the job's record.
type grid struct{ parallel map[string]*gridTasks }

type gridTasks struct {
	cpu   float64
	nodes []string
}

func (g *grid) parseJob(text string) (*sacct.Job, error) {
	f := strings.Split(text, ":")
	if !isGrid(f) {
		return nil, fmt.Errorf("%d fields: a record of Grid Engine has at least %[2]d, and numbers as its times",
			len(f),
			gridFields)
	}
	word := func(i int) string {
		if i >= len(f) || strings.EqualFold(f[i], "NONE") {
			return ""
		}
		return f[i]
	}
	id := f[gridNumber]
	if task := f[gridTask]; task != "0" && task != "" {
		id += "." + task
	}
	j := &sacct.Job{ID: id, Raw: id, User: f[gridOwner], Account: word(gridProject), Partition: word(gridQueue), Name: f[gridName]}
	if j.Account == "" && f[gridAccount] != "sge" { // which is written for none
		j.Account = word(gridAccount)
	}
	cpu := readField(j, "cpu", f[gridCPU], slurmtext.Number)
	if word(gridPETask) != "" {
		g.addTask(id, f[gridHost], cpu)
		return nil, nil
	}
	tasks := g.parallel[id]
	delete(g.parallel, id)
	times := []*time.Time{&j.Submit, &j.Start, &j.End}
	for i, name := range []string{"submission_time", "start_time", "end_time"} {
		v := readField(j, name, f[gridSubmit+i], parseUnix)
		if v == nil {
			return nil, errors.Join(j.Unread...)
		}
		*times[i] = *v
	}
	switch {
	case j.Start.IsZero() && j.End.IsZero():
		j.State = "pending"
		return j, nil
	case j.Start.IsZero():
		j.State = "cancelled"
		return j, nil
	case j.End.Before(j.Start):
		return nil, fmt.Errorf("job %s ended before its start", id)
	}
	g.setOutcome(j, f)
	slots := readField(j, "slots", f[gridSlots], slurmtext.Number)
	if j.CPUUser = cpu; slots != nil {
		j.AllocCores, j.ReqCores = sacct.Known(*slots), sacct.Known(*slots)
	}
	if tasks != nil {
		setNodes(j, append(tasks.nodes, f[gridHost]))
		if cpu != nil {
			*cpu += tasks.cpu
		}
	} else if word(gridPE) == "" || slots != nil && *slots <= 1 {
		setNodes(j, []string{f[gridHost]})
	}
	dropZeroCPU(j)
	g.parseRequest(j, word(gridCategory), slots)
	if len(f) >= univaFields {
		if wall, err := strconv.ParseFloat(f[univaWall], 64); err == nil && wall > 0 { // else fields before contain colons
			if v := readField(j, "maxrss", f[univaRSS], slurmtext.Number); v != nil {
				j.PeakMemory = sacct.Known(*v)
			}
		}
	}
	return j, nil
}

// addTask adds the use of a task in a parallel job.
func (g *grid) addTask(id, host string, cpu *float64) {
	if g.parallel == nil {
		g.parallel = map[string]*gridTasks{}
	}
	if g.parallel[id] == nil {
		g.parallel[id] = &gridTasks{}
	}
	p := g.parallel[id]
	if p.nodes = append(p.nodes, host); cpu != nil {
		p.cpu += *cpu
	}
}

// setOutcome sets the outcome of a job.
func (g *grid) setOutcome(j *sacct.Job, f []string) {
	j.State = "completed"
	if exit := readField(j, "exit_status", f[gridExit], strconv.Atoi); exit != nil {
		setState(j, *exit)
	}
	switch failed, _, _ := strings.Cut(strings.TrimSpace(f[gridFailed]), " "); failed {
	case "", "0":
	case "25": // it is run again
		j.State, j.ExitCode = sacct.Requeued, nil
	case "37", "44":
		j.State, j.EndedBy = "timeout", slurmtext.EndedByTimeLimit
	default:
		j.State = "failed"
	}
}

// parseRequest parses the request of a job: -l h_rt=36000,gpu=1. The number of GPUs may be per slot; it is counted for one slot only.
func (g *grid) parseRequest(j *sacct.Job, text string, slots *float64) {
	words := strings.Fields(text)
	at := slices.Index(words, "-l")
	if at < 0 || at+1 >= len(words) {
		return
	}
	for item := range strings.SplitSeq(words[at+1], ",") {
		key, value, _ := strings.Cut(item, "=")
		switch key {
		case "h_rt":
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				j.TimeLimit = sacct.Known(v)
			}
		case "gpu", "gpus", "ngpus":
			if v, err := strconv.ParseFloat(value, 64); err == nil && slots != nil && *slots == 1 {
				j.AllocGPUs, j.ReqGPUs = sacct.Known(v), sacct.Known(v)
			}
		}
	}
}
