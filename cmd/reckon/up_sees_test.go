package main

import "testing"

// Root without a capability, in a user namespace or with --exits none is not said to see everything, and another user who was granted
// the capabilities is not said to see less.
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
		if got := sees(c.root, c.io, c.ends, c.inside); got != c.want {
			t.Errorf("root %v, io %v, ends %v: %q, want %q", c.root, c.io, c.ends, got, c.want)
		}
	}
}
