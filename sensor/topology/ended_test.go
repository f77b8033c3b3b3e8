package topology

import (
	"os"
	"os/exec"
	"testing"
)

// The place of an ended process is unknown, which is not the same as unrestricted.
func TestPlaceOfEnded(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip("not available here: ", err)
	}
	var r Reader
	if _, _, ok := r.Place(cmd.Process.Pid); ok {
		t.Error("a process that has ended has a place")
	}
	if _, _, ok := r.Place(os.Getpid()); !ok {
		t.Error("this process has no place")
	}
}
