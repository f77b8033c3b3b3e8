package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"reckon/interop/sonar"
)

// jobKey is what tells the jobs of a node apart in a reading.
type jobKey struct {
	Job, Epoch uint64
	Batch      bool
	PID        uint32 // of processes of job 0
	User       string // of processes of job 0 without a number
}

// jobState is one workload on one node so far.
type jobState struct {
	ID, Kind, Owner, Command string
	Start, First, Last       int64 // when it began, first and last reading

	CPU       float64 // seconds, in all
	HasCPU    bool
	Commands  map[string]float64
	Peak      float64
	ByteSecs  float64
	Resident  float64 // at the last reading
	HasMemory bool
	Read      float64
	Written   float64
	HasIO     bool
	GPU       map[string]float64 // seconds by card
	HasGPU    bool
	Procs     map[procKey]procState

	out *jobSeries // of the period under way
}

// procKey tells processes of a job apart: by number, or by name and parent where sonar
// added several up.
type procKey struct {
	PID, PPID uint32
	Cmd       string
}

func (k jobKey) compare(o jobKey) int {
	batch := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(k.Job, o.Job), cmp.Compare(k.PID, o.PID), cmp.Compare(k.Epoch, o.Epoch), cmp.Compare(k.User, o.User), batch(k.Batch)-batch(o.Batch))
}

// processes lists the numbers of the job's processes in a fixed order.
func (j *jobState) processes() []procKey {
	return slices.SortedFunc(maps.Keys(j.Procs), func(a, b procKey) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.PPID, b.PPID), cmp.Compare(a.Cmd, b.Cmd))
	})
}

type procState struct {
	PPID               uint32
	CPU, Read, Written float64
}

// restart is for how long a group without an epoch may be silent before its number
// means another one, in seconds.
const restart = 86400

// maxCommands is how many programs of a job are told apart.
const maxCommands = 16

// maxGap is how long a reading of a moment stands for the time before it, in seconds.
const maxGap = 3600

func keyOf(p *sonar.Process, batch bool) jobKey {
	slurm := p.Epoch == 0 && (p.HasEpoch || batch)
	switch {
	case p.Job != 0:
		return jobKey{Job: p.Job, Epoch: p.Epoch, Batch: slurm}
	case p.PID != 0:
		return jobKey{Epoch: p.Epoch, PID: p.PID}
	}
	return jobKey{User: p.User}
}

// newJob begins a life.
func newJob(k jobKey, node string, t int64, procs []*sonar.Process) *jobState {
	j := &jobState{Owner: procs[0].User, First: t, Commands: map[string]float64{}, Procs: map[procKey]procState{}}
	number := k.Job
	if number == 0 {
		number = uint64(k.PID)
	}
	suffix := k.Epoch
	if suffix == 0 {
		suffix = uint64(t)
	}
	switch {
	case k.Batch:
		j.ID, j.Kind = fmt.Sprintf("slurm/%d", k.Job), "slurm"
	case number != 0:
		name := strconv.FormatUint(number, 10)
		if k.Job == 0 {
			name = "pid" + name // no group of processes has this name
		}
		j.ID, j.Kind = fmt.Sprintf("group/%s/%s-%d", node, name, suffix), "group"
	default:
		j.ID, j.Kind = "other/"+node, "other"
	}
	// The leader of the group names it, else what used most.
	lead := procs[0]
	for _, p := range procs {
		if uint64(p.PID) == number && number != 0 {
			lead = p
			break
		}
		if p.CPU > lead.CPU {
			lead = p
		}
	}
	j.Start = t - age(procs)
	j.Command = strings.TrimSuffix(lead.Cmd, " <defunct>")
	return j
}

// Ages are believed of processes that used this much, in seconds, and of this mean of
// cores: both are written with few digits. None is older than a machine stays up.
const (
	ageCPU  = 30
	ageMean = 0.05
	ageMost = 400 * 86400
)

// age is how old a job is, by the process that used most: its CPU time by its mean.
func age(procs []*sonar.Process) int64 {
	var most *sonar.Process
	for _, p := range procs {
		if p.CPU >= ageCPU && p.Mean >= ageMean && (most == nil || p.CPU > most.CPU) {
			most = p
		}
	}
	if most == nil {
		return 0
	}
	return int64(min(most.CPU/most.Mean, ageMost))
}

// take adds a reading.
func (j *jobState) take(t int64, procs []*sonar.Process, resident bool) {
	now := make(map[procKey]procState, len(procs))
	grown := make(map[procKey]float64, len(procs))
	byPID := map[uint32]procKey{}
	type loss struct {
		amount float64
		parent uint32
	}
	var lost []loss
	memory := 0.0
	var gpus []*sonar.Process
	for _, p := range procs {
		k := procKey{PID: p.PID}
		if p.PID == 0 {
			k = procKey{PPID: p.PPID, Cmd: p.Cmd}
		}
		if _, twice := now[k]; twice {
			continue
		}
		s := procState{PPID: p.PPID, CPU: p.CPU, Read: p.Read, Written: p.Written}
		before, had := j.Procs[k]
		now[k] = s
		if p.PID != 0 {
			byPID[p.PID] = k
		}
		if p.CPU >= 0 {
			j.HasCPU = true
			switch {
			case !had || before.CPU < 0:
				grown[k] = p.CPU
			case p.CPU >= before.CPU:
				grown[k] = p.CPU - before.CPU
			case p.PID != 0 && p.Rolled == 0: // the number was given again
				lost = append(lost, loss{before.CPU, before.PPID})
				grown[k] = p.CPU
			default: // of several processes some are gone
				lost = append(lost, loss{before.CPU - p.CPU, before.PPID})
			}
		}
		if p.Read >= 0 || p.Written >= 0 {
			j.HasIO = true
			j.Read += rise(before.Read, p.Read, had)
			j.Written += rise(before.Written, p.Written, had)
		}
		if p.Resident >= 0 {
			memory += p.Resident
		}
		if p.GPUs != "" {
			gpus = append(gpus, p)
		}
	}
	gone := 0
	for k, s := range j.Procs {
		if _, alive := now[k]; !alive && s.CPU > 0 {
			gone++
		}
	}
	if gone > 0 { // in a fixed order: sums of fractions depend on it
		for _, k := range j.processes() {
			if s := j.Procs[k]; s.CPU > 0 {
				if _, alive := now[k]; !alive {
					lost = append(lost, loss{s.CPU, s.PPID})
				}
			}
		}
	}
	// What is gone was waited for by its parent, whose time has then grown by it.
	for _, l := range lost {
		parent := l.parent
		for range 64 {
			if parent == 0 {
				break
			}
			if k, alive := byPID[parent]; alive {
				grown[k] -= min(grown[k], l.amount)
				break
			}
			gone, had := j.Procs[procKey{PID: parent}]
			if !had {
				break
			}
			parent = gone.PPID
		}
	}
	for _, p := range procs {
		k := procKey{PID: p.PID}
		if p.PID == 0 {
			k = procKey{PPID: p.PPID, Cmd: p.Cmd}
		}
		if g, ok := grown[k]; ok {
			j.CPU += g
			j.command(p.Cmd, g)
			delete(grown, k)
		}
	}
	dt := float64(t - j.Last)
	if j.Last == 0 || dt > maxGap {
		dt = 0
	}
	if resident {
		// The mean of both ends of the time between.
		before := j.Resident
		if !j.HasMemory {
			before = memory
		}
		j.ByteSecs += dt * (before + memory) / 2
		j.Resident, j.Peak, j.HasMemory = memory, max(j.Peak, memory), true
	}
	if len(gpus) > 0 {
		j.HasGPU = true
		if j.GPU == nil {
			j.GPU = map[string]float64{}
		}
		for _, p := range gpus {
			list := strings.Split(p.GPUs, ",")
			for _, card := range list {
				j.GPU[card] += dt * max(p.GPU, 0) / float64(len(list))
			}
		}
	}
	j.Procs, j.Last = now, t
}

func rise(before, now float64, had bool) float64 {
	if now < 0 {
		return 0
	}
	if !had || before < 0 || now < before {
		before = 0
	}
	return now - before
}

func (j *jobState) command(cmd string, seconds float64) {
	cmd = strings.TrimSuffix(cmd, " <defunct>")
	if _, ok := j.Commands[cmd]; !ok && (len(j.Commands) >= maxCommands || cmd == "") {
		cmd = "other"
	}
	j.Commands[cmd] += seconds
}
