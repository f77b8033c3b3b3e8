// Package workload may not even import what is shared.
package workload

import _ "reckon/internal/deep"

// Kind is asked by others.
type Kind string

// Kinds.
const (
	Slurm Kind = "slurm"
	Unit  Kind = "unit"
)

// Unit may compare, here.
func (k Kind) Unit() bool { return k == Unit }
