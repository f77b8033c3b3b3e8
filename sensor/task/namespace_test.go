package task

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// inside is the output of a test program that runs in a pid namespace of its own.
const inside = "RECKON_TEST_INSIDE"

// TestNamespaces opens the task table in containers of several kinds.
func TestNamespaces(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		proc         bool // /proc belongs to the namespace
		second       bool // not its first process
		want         string
	}{
		{"of the machine", Auto, true, true, "no note"},
		{"a container that is us alone", Auto, true, false, "error: there is nothing to measure"},
		{"the same, asked for", Procfs, true, false, "note: processes outside our pid namespace are not seen"},
		{"a node in a container", Auto, true, true, "note: processes outside our pid namespace are not seen"},
		{"with the machine's tree", Auto, false, false, "error: the process ids in /proc are not those of our own pid namespace"},
		{"the same, procfs", Procfs, false, false, "no exits, no note"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := `exec "$0" -test.run='^TestOpenInside$' -test.v`
			if tt.second {
				script = `"$0" -test.run='^TestOpenInside$' -test.v; exit $?`
			}
			if tt.proc {
				script = "mount -t proc proc /proc && " + script
			}
			c := exec.Command("sh", "-c", script, "/proc/self/exe")
			if exe, err := os.Executable(); err == nil {
				c.Args[3] = exe
			}
			c.Env = append(os.Environ(), inside+"="+tt.source)
			c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
			if tt.name == "of the machine" {
				if isNested() {
					t.Skip("these tests run in a container themselves")
				}
				c.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
			}
			out, err := c.CombinedOutput()
			if err != nil {
				if strings.Contains(err.Error(), "not permitted") || strings.Contains(string(out), "mount:") {
					t.Skip("namespaces cannot be made here")
				}
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(string(out), tt.want) {
				t.Errorf("want %q in\n%s", tt.want, out)
			}
		})
	}
}

// TestOpenInside is started by TestNamespaces.
func TestOpenInside(t *testing.T) {
	source := os.Getenv(inside)
	if source == "" {
		t.Skip("only for TestNamespaces")
	}
	s, notes, err := Open(Options{Source: source})
	if err != nil {
		if !errors.Is(err, sensor.ErrUnavailable) || strings.Contains(err.Error(), "\n") {
			t.Fatal(err)
		}
		t.Log("error: " + err.Error())
		return
	}
	defer s.Close()
	said := "no note"
	for _, n := range notes {
		if n.Sensor == PIDNamespace {
			said = "note: " + n.Err.Error()
		}
	}
	if s.Exits() == "" {
		said = "no exits, " + said
	}
	t.Log(said)
}
