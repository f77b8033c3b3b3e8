package main

import (
	"errors"
	"strings"
	"testing"

	"reckon/agent"
	"reckon/sensor"
)

// Root without a capability, in a user namespace or with the setting exits none is not reported to see everything, and another user who was granted
// the capabilities is not reported to see less.
func TestSees(t *testing.T) {
	for _, c := range []struct {
		root, io, ends, inside bool
		want                   string
	}{
		{true, true, true, false, "Running as root: it sees everybody's processes in full."},
		{true, true, true, true, "Running as root: it sees everybody's processes of its pid namespace in full."},
		{false, true, true, false, "Running without root: it sees everybody's processes in full."},
		{false, false, false, false, "Running without root: the I/O of other users and the ends of short processes stay unseen; with root it sees them."},
		{true, true, false, false, "Running as root, but the ends of short processes stay unseen: a capability, a namespace or an option stands in the way."},
		{true, false, true, false, "Running as root, but the I/O of other users stays unseen: a capability, a namespace or an option stands in the way."},
	} {
		if got := describeView(c.root, c.io, c.ends, c.inside); got != c.want {
			t.Errorf("root %v, io %v, ends %v: %q, want %q", c.root, c.io, c.ends, got, c.want)
		}
	}
}

// What the kernel refuses has a line with its answer, though there is no remedy; hardware that is not there has only its name.
func TestNotesOfRefusedSources(t *testing.T) {
	var out strings.Builder
	printSensorNotes(&out, []agent.Note{
		{Sensor: "tegra", Err: sensor.Unavailable("not a Tegra board", "", nil)},
		{Sensor: "files-hooks", Err: sensor.RefusedError("some calls on file systems are not counted", "",
			errors.Join(errors.New("vfs_mkdir: no"), errors.New("vfs_rmdir: no")))},
	})
	const want = "\nNot available here:\n  files-hooks  some calls on file systems are not counted: vfs_mkdir: no; vfs_rmdir: no\n\nNo data sources here for tegra; see `reckon nodes`.\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
