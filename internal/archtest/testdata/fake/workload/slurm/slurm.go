// Package slurm may import its own stage.
package slurm

import _ "reckon/workload"
