// Package rapl breaks what a sensor may not do.
package rapl

import (
	"os/exec"

	"reckon/sensor/hwmon"
	"reckon/workload"
)

func init() {}

var (
	count   int
	names   = []string{"a"}
	limits  = struct{ n int }{1}
	mapping = map[string]int{}
)

// Run runs.
func Run() {
	_ = exec.Command("x")
	_ = hwmon.Get
	_ = workload.X
	names[0] = "b"
	limits.n++
	delete(mapping, "x")
	count++
}
