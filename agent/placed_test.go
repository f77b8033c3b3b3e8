package agent

import (
	"os"
	"testing"

	"reckon/sensor"
	"reckon/workload"
)

// TestPlaced: figures of which a sensor knows the workload for certain are of it, whoever
// owns it, and may still not use the names of others.
func TestPlaced(t *testing.T) {
	a := open(t, Config{Source: "procfs", Node: "n1"})
	a.openOwnReaders(0)
	twice(t, a)
	mine, err := a.processOwner(int32(os.Getpid()), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if v := a.resolveOwner(&sensor.Origin{Workload: string(mine.id), Placed: true}); v.err != nil || v.subject.id != mine.id || v.trusted {
		t.Errorf("%+v", v)
	}
	if v := a.resolveOwner(&sensor.Origin{Workload: string(mine.id)}); v.err == nil {
		t.Errorf("a stranger who names a workload: %+v", v)
	}
	if v := a.resolveOwner(&sensor.Origin{Workload: string(workload.MakeID(workload.Pod, "none")), Placed: true}); v.err == nil {
		t.Errorf("a pod that does not run here: %+v", v)
	}
	if err := a.own.checkName("node_load1", false); err == nil {
		t.Error("the name of a figure of the machine")
	}
}
