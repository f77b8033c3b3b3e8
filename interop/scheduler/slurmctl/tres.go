package slurmctl

import (
	"strings"

	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
)

// setRequest sets the request of a job, and give its allocation.
func setRequest(j *scheduler.Job, t slurmtext.TRES) {
	for v, into := range map[*float64]*float64{&t.Cores: &j.Cores, &t.Memory: &j.MemoryBytes, &t.GPUs: &j.GPUs, &t.Nodes: &j.Nodes} {
		if *v > 0 {
			*into = *v
		}
	}
}

func setAllocation(j *scheduler.Job, t slurmtext.TRES) {
	a := &j.Allocated
	for v, into := range map[*float64]*float64{&t.Cores: &a.Cores, &t.Memory: &a.MemoryBytes, &t.GPUs: &a.GPUs, &t.Nodes: &a.Nodes} {
		if *v > 0 {
			*into = *v
		}
	}
}

// tresItem is an item of a list of TRES in the JSON of accounting.
type tresItem struct {
	Type, Name text
	Count      number
}

func tresOf(list []tresItem) slurmtext.TRES {
	var t slurmtext.TRES
	typed, gpus := 0.0, 0.0
	for _, x := range list {
		if !x.Count.ok || x.Count.v <= 0 {
			continue
		}
		switch {
		case x.Type == "cpu":
			t.Cores = x.Count.v
		case x.Type == "mem":
			t.Memory = x.Count.v * (1 << 20)
		case x.Type == "node":
			t.Nodes = x.Count.v
		case x.Type == "gres" && x.Name == "gpu":
			gpus = x.Count.v
		case x.Type == "gres" && strings.HasPrefix(string(x.Name), "gpu:"):
			typed += x.Count.v
		}
	}
	if t.GPUs = gpus; gpus == 0 {
		t.GPUs = typed
	}
	return t
}
