package slurmtext

import "strings"

// TRES is the total allocation or request of a job or a step. Unreported figures are 0.
type TRES struct{ Cores, Memory, GPUs, Nodes float64 }

// ReadTRES parses a list of trackable resources, such as cpu=2,mem=100M,node=1,billing=2,gres/gpu:a100=1,gres/gpu=1.
// Memory without a unit is in MiB. Resources that are unknown, such as those defined by a site, are skipped.
func ReadTRES(list string) TRES {
	var t TRES
	typed, gpus := 0.0, 0.0
	for item := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			continue
		}
		bare := 1.0
		if name == "mem" {
			bare = 1 << 20
		}
		v, err := Size(value, bare)
		if err != nil || v <= 0 {
			continue
		}
		switch {
		case name == "cpu":
			t.Cores = v
		case name == "mem":
			t.Memory = v
		case name == "node":
			t.Nodes = v
		case name == "gres/gpu":
			gpus = v
		case strings.HasPrefix(name, "gres/gpu:"):
			typed += v
		}
	}
	if t.GPUs = gpus; gpus == 0 {
		t.GPUs = typed
	}
	return t
}

// GPUs counts the GPUs in gpu:a100:4(S:0-1),gpu:2,shard:8 (gres.conf(5)).
func GPUs(s string) float64 {
	total, depth, begin := 0.0, 0, 0
	one := func(item string) {
		item, _, _ = strings.Cut(item, "(")
		item = strings.TrimPrefix(strings.TrimPrefix(item, "gres:"), "gres/")
		name, rest, ok := strings.Cut(item, ":")
		if name != "gpu" {
			return
		}
		n := 1.0 // gpu and gpu:a100 mean one
		if ok {
			if i := strings.LastIndexByte(rest, ':'); i >= 0 {
				rest = rest[i+1:]
			}
			if v, err := Size(rest, 1); err == nil && v >= 0 {
				n = v
			}
		}
		total += n
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
