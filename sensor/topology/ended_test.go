package topology

import (
	"os"
	"os/exec"
	"testing"
)

// A process that has ended has no place; that is not the place of one that may run anywhere.
func TestPlaceOfEnded(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	var r Reader
	if _, _, ok := r.Place(cmd.Process.Pid); ok {
		t.Error("a process that has ended has a place")
	}
	if _, _, ok := r.Place(os.Getpid()); !ok {
		t.Error("this process has no place")
	}
}
