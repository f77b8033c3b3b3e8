package answer

import (
	"testing"

	"reckon/figure/wire"
)

func TestByNode(t *testing.T) {
	one, two := 1.0, 2.0
	got := sumByNode([]wire.Part{{Node: "a", Part: "0", CPUSeconds: &one}, {Node: "b", Part: "0"}, {Node: "a", Part: "1", CPUSeconds: &two}, {Node: "b", Part: "1", CPUSeconds: &one}})
	if len(got) != 2 || got[0].Name != "a" || *got[0].CPUSeconds != 3 || got[1].CPUSeconds != nil {
		t.Errorf("got %+v", got)
	}
	// The series of a whole job, such as its histogram of cores, measure none of its parts.
	got = sumByNode([]wire.Part{{Node: "a"}, {Node: "a", Part: "batch", CPUSeconds: &one}, {Node: "b"}, {Node: "c", CPUSeconds: &two}})
	if len(got) != 3 || got[0].CPUSeconds == nil || *got[0].CPUSeconds != 1 || got[1].CPUSeconds != nil || *got[2].CPUSeconds != 2 {
		t.Errorf("got %+v", got)
	}
	if one != 1 {
		t.Error("a figure of the caller was changed")
	}
}
