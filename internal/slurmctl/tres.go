package slurmctl

import (
	"strings"
)

// tres reads "cpu=2,mem=100M,node=1,billing=2,gres/gpu:a100=1,gres/gpu=1"
// (slurm.conf(5), AccountingStorageTRES).
func (j *Job) tres(s string) {
	typed, gpus := 0.0, 0.0
	for item := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(item, "=")
		if !ok {
			continue
		}
		switch {
		case key == "cpu":
			j.Cores = amount(value, 1, j.Cores)
		case key == "mem":
			j.MemoryBytes = amount(value, 1<<20, j.MemoryBytes)
		case key == "node":
			j.Nodes = amount(value, 1, j.Nodes)
		case key == "gres/gpu":
			gpus = amount(value, 1, 0)
		case strings.HasPrefix(key, "gres/gpu:"):
			typed += amount(value, 1, 0)
		}
	}
	if gpus == 0 {
		gpus = typed
	}
	if gpus > 0 {
		j.GPUs = gpus
	}
}

// tresItem is the same in the JSON of accounting.
type tresItem struct {
	Type, Name text
	Count      number
}

func (j *Job) tresList(list []tresItem) {
	typed, gpus := 0.0, 0.0
	for _, x := range list {
		if !x.Count.ok || x.Count.v <= 0 {
			continue
		}
		switch {
		case x.Type == "cpu":
			j.Cores = x.Count.v
		case x.Type == "mem":
			j.MemoryBytes = x.Count.v * (1 << 20)
		case x.Type == "node":
			j.Nodes = x.Count.v
		case x.Type == "gres" && x.Name == "gpu":
			gpus = x.Count.v
		case x.Type == "gres" && strings.HasPrefix(string(x.Name), "gpu:"):
			typed += x.Count.v
		}
	}
	if gpus == 0 {
		gpus = typed
	}
	if gpus > 0 {
		j.GPUs = gpus
	}
}

// amount reads a number with a unit of 1024; without one it is in bare. What is none, or
// not positive, leaves the value as it was.
func amount(s string, bare, was float64) float64 {
	unit := bare
	if s != "" {
		switch s[len(s)-1] {
		case 'K', 'k':
			unit = 1 << 10
		case 'M', 'm':
			unit = 1 << 20
		case 'G', 'g':
			unit = 1 << 30
		case 'T', 't':
			unit = 1 << 40
		case 'P', 'p':
			unit = 1 << 50
		}
	}
	if v, ok := parseFloat(strings.TrimRight(s, "KMGTPkmgtp")); ok && v > 0 {
		return v * unit
	}
	return was
}

// gres counts the GPUs of "gpu:a100:4(S:0-1),gpu:2,shard:8" (gres.conf(5)).
func gres(s string) float64 {
	total, depth, begin := 0.0, 0, 0
	one := func(item string) {
		item, _, _ = strings.Cut(item, "(")
		item = strings.TrimPrefix(strings.TrimPrefix(item, "gres:"), "gres/")
		name, rest, ok := strings.Cut(item, ":")
		if name != "gpu" {
			return
		}
		if !ok {
			total++
			return
		}
		if i := strings.LastIndexByte(rest, ':'); i >= 0 {
			rest = rest[i+1:]
		}
		total += amount(rest, 1, 1) // "gpu:a100" is one of them
	}
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth <= 0 {
				one(s[begin:i])
				begin = i + 1
			}
		}
	}
	one(s[begin:])
	return total
}
