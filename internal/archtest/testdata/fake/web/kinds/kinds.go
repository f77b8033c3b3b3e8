// Package kinds compares kinds by their names, in every way that is found, and asks them as it may.
package kinds

import "reckon/workload"

const batchKind = "slurm"

var ofPeople = []string{"slurm", "unit"}

func compare(kind string, k workload.Kind, unit string) bool {
	switch kind {
	case "unit":
		return kind == "slurm" || k != workload.Slurm
	}
	return unit == "unit" || k.Unit() || kind == batchKind || match("kind", "unit") || len(ofPeople) == len([]string{"slurm", "seconds"})
}

func match(label, value string) bool { return label == value && compare(label, "", value) }
