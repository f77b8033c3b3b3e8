// Package all lists the supported batch systems. To add one, add a line.
package all

import (
	"fmt"
	"strings"

	"reckon/interop/scheduler"
	"reckon/interop/scheduler/flux"
	"reckon/interop/scheduler/slurmctl"
)

// systems are all batch systems, Slurm first.
var systems = []struct {
	name string
	open func(scheduler.Access) (scheduler.Source, error)
}{
	{"slurm", slurmctl.Open},
	{"flux", flux.Open},
}

// Names returns the names of the batch systems, Slurm's first.
func Names() []string {
	out := make([]string, len(systems))
	for i := range systems {
		out[i] = systems[i].name
	}
	return out
}

// Open returns the source of a batch system.
func Open(name string, a scheduler.Access) (scheduler.Source, error) {
	for _, s := range systems {
		if s.name == name {
			return s.open(a)
		}
	}
	return nil, fmt.Errorf("scheduler %q is none of %s", name, strings.Join(Names(), ", "))
}
