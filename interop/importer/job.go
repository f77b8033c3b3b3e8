package importer

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"reckon/interop/sonar"
	"reckon/workload"
)

// jobKey distinguishes the jobs of a node in a reading.
type jobKey struct {
	Job, Epoch uint64
	Batch      bool
	PID        uint32 // for processes of job 0
	User       string // for processes of job 0 without a number
}

// jobState is the state of one workload on one node.
type jobState struct {
	ID, Kind, Owner, Command string
	Start, First, Last       int64 // start, first and last reading

	CPU       float64 // seconds, in total
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

	out *jobSeries // for the current period
}

func (k jobKey) compare(o jobKey) int {
	return cmp.Or(cmp.Compare(k.Job, o.Job), cmp.Compare(k.PID, o.PID), cmp.Compare(k.Epoch, o.Epoch), cmp.Compare(k.User, o.User),
		asNumber[k.Batch]-asNumber[o.Batch])
}

var asNumber = map[bool]int{true: 1}

// restartGap is the silence of a group without an epoch after which its number denotes another group, in seconds.
const restartGap = 86400

// maxGap is the maximum time before a reading that the reading covers, in seconds.
const maxGap = 3600

func toJobKey(p *sonar.Process, batch bool) jobKey {
	slurm := p.Epoch == 0 && (p.HasEpoch || batch)
	switch {
	case p.Job != 0:
		return jobKey{Job: p.Job, Epoch: p.Epoch, Batch: slurm}
	case p.PID != 0:
		return jobKey{Epoch: p.Epoch, PID: p.PID}
	}
	return jobKey{User: p.User}
}

// newJob starts the state of a run.
func newJob(k jobKey, node string, t int64, procs []*sonar.Process) *jobState {
	j := &jobState{Owner: procs[0].User, First: t, Commands: map[string]float64{}, Procs: map[procKey]procState{}}
	number := cmp.Or(k.Job, uint64(k.PID))
	suffix := cmp.Or(k.Epoch, uint64(t))
	id := workload.MakeID(workload.Other, node)
	switch {
	case k.Batch:
		id = workload.JobID(strconv.FormatUint(k.Job, 10))
	case number != 0:
		name := strconv.FormatUint(number, 10)
		if k.Job == 0 {
			name = "pid" + name // no process group has this name
		}
		id = workload.MakeID(workload.Group, fmt.Sprintf("%s/%s-%d", node, name, suffix))
	}
	j.ID, j.Kind = string(id), string(id.Kind())
	// The group leader provides the name, otherwise the process with the highest use.
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
	j.Start = t - estimateAge(procs)
	j.Command = programName(lead.Cmd)
	return j
}

// A process's age is computed from its CPU time and mean cores, which are written with few digits. It requires at least
// ageCPU seconds and ageMean cores. ageMost is longer than the uptime of any machine.
const (
	ageCPU  = 30
	ageMean = 0.05
	ageMost = 400 * 86400
)

// estimateAge returns the age of a job from the process with the highest use: its CPU time divided by its mean.
func estimateAge(procs []*sonar.Process) int64 {
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

// addReading adds a reading: the growth of the processes, and the instantaneous figures.
func (j *jobState) addReading(a *growthStep, procs []*sonar.Process, resident bool) {
	dt := float64(a.t - j.Last)
	if j.Last == 0 || dt > maxGap {
		dt = 0
	}
	a.chargeJob(procs)
	if resident {
		j.addMemory(dt, procs)
	}
	j.addGPUs(dt, procs)
	j.Last = a.t
}

func (j *jobState) addMemory(dt float64, procs []*sonar.Process) {
	memory := 0.0
	for _, p := range procs {
		memory += max(p.Resident, 0)
	}
	// Mean of the values at both ends of the interval.
	before := j.Resident
	if !j.HasMemory {
		before = memory
	}
	j.ByteSecs += dt * (before + memory) / 2
	j.Resident, j.Peak, j.HasMemory = memory, max(j.Peak, memory), true
}

func (j *jobState) addGPUs(dt float64, procs []*sonar.Process) {
	for _, p := range procs {
		if p.GPUs == "" {
			continue
		}
		j.HasGPU = true
		if j.GPU == nil {
			j.GPU = map[string]float64{}
		}
		list := strings.Split(p.GPUs, ",")
		for _, card := range list {
			j.GPU[card] += dt * max(p.GPU, 0) / float64(len(list))
		}
	}
}
