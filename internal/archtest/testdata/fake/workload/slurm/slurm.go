// Package slurm may import its own stage and what is shared, but not a sensor.
package slurm

import (
	_ "reckon/internal/deep"
	_ "reckon/sensor"
	_ "reckon/workload"
)
