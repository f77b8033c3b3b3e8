package stress

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Resource is one of the resources that a program uses.
type Resource int

// The resources, in the order in which they are printed.
const (
	CPU Resource = iota
	Memory
	DiskRead
	DiskWrite
	Network
	GPU
	resources // number of resources
)

// resourceNames are the names of the resources. They equal those of a workload's profiles in the HTTP API, so that a recorded
// profile can be replayed as a program.
var resourceNames = [resources]string{
	"cores", "memory_bytes", "io_read_bytes_per_second", "io_write_bytes_per_second", "network_bytes_per_second", "gpus",
}

// String returns the name of the resource with its unit, as in files: cores, memory_bytes.
func (r Resource) String() string { return resourceNames[r] }

// All returns the resources in the order in which they are printed.
func All() []Resource { return []Resource{CPU, Memory, DiskRead, DiskWrite, Network, GPU} }

func resourceNamed(name string) (resource Resource, ok bool) {
	for r, n := range resourceNames {
		if strings.EqualFold(n, name) {
			return Resource(r), true
		}
	}
	return 0, false
}

// Level is an amount of each resource, in its unit.
type Level [resources]float64

// Scale returns l times f.
func (l Level) Scale(f float64) Level {
	for r := range l {
		l[r] *= f
	}
	return l
}

// Only returns l with nothing but the given resource.
func (l Level) Only(r Resource) (out Level) {
	out[r] = l[r]
	return out
}

// Step is a level and its duration.
type Step struct {
	Level    Level
	Duration time.Duration
}

// Program is a load program.
type Program struct {
	Steps []Step
	// Workers is the number of threads that load the CPU in equal parts. 0 means as many as the highest step needs.
	Workers int
}

// Duration returns the length of the program.
func (p Program) Duration() (sum time.Duration) {
	for _, s := range p.Steps {
		sum += s.Duration
	}
	return sum
}

// Peak returns the highest level of each resource.
func (p Program) Peak() (peak Level) {
	for _, s := range p.Steps {
		for r, v := range s.Level {
			peak[r] = max(peak[r], v)
		}
	}
	return peak
}

// Cut returns the beginning of the program up to d.
func (p Program) Cut(d time.Duration) Program {
	var steps []Step
	for _, s := range p.Steps {
		if d <= 0 {
			break
		}
		s.Duration = min(s.Duration, d)
		d -= s.Duration
		steps = append(steps, s)
	}
	p.Steps = steps
	return p
}

// Limits of a program: larger values are typing errors.
const (
	maxSteps    = 1_000_000
	maxDuration = 366 * 24 * time.Hour
	maxWorkers  = 4096
)

// Check returns an error that describes the fault of the program, or nil if it can be run.
func (p Program) Check() error {
	if len(p.Steps) == 0 {
		return fmt.Errorf("the program has no steps")
	}
	if len(p.Steps) > maxSteps {
		return fmt.Errorf("the program has %d steps; at most %d are played", len(p.Steps), maxSteps)
	}
	var sum time.Duration
	for i, s := range p.Steps {
		if s.Duration <= 0 {
			return fmt.Errorf("step %d lasts %s: give a time above 0", i+1, s.Duration)
		}
		if sum += s.Duration; sum > maxDuration || sum < 0 {
			return fmt.Errorf("the program takes more than a year")
		}
		for r, v := range s.Level {
			if math.IsNaN(v) || v < 0 || v > 1e15 {
				return fmt.Errorf("step %d: %s is %g: give a number that is not below 0", i+1, Resource(r), v)
			}
		}
	}
	if p.Workers < 0 || p.Workers > maxWorkers {
		return fmt.Errorf("%d CPU workers: give 1 to %d", p.Workers, maxWorkers)
	}
	peak := p.Peak()
	if p.Workers > 0 && peak[CPU] > float64(p.Workers)+1e-9 {
		return fmt.Errorf("%g cores cannot be used by %d workers", peak[CPU], p.Workers)
	}
	if peak[CPU] > maxWorkers {
		return fmt.Errorf("%g cores: at most %d are loaded", peak[CPU], maxWorkers)
	}
	if peak == (Level{}) {
		return fmt.Errorf("every step of the program is 0: nothing is to be loaded")
	}
	return nil
}

// workers returns the number of threads that load the CPU.
func (p Program) workers() int {
	need := p.Peak()[CPU]
	switch {
	case need == 0:
		return 0
	case p.Workers > 0:
		return p.Workers
	}
	return int(math.Ceil(need - 1e-9))
}
