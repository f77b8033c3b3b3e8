package main

import (
	"testing"

	"reckon/client"
)

// Three disks at most are named, and none for which it hardly waited.
func TestDisksText(t *testing.T) {
	for _, c := range []struct {
		waits []client.DiskWait
		want  string
	}{
		{nil, ""},
		{[]client.DiskWait{{Device: "sda", Seconds: 0.099}}, ""},
		{[]client.DiskWait{{Device: "sda", Seconds: 80}, {Device: "dm-0", Seconds: 0.1}}, " (sda 1m 20s, dm-0 100 ms)"},
		{[]client.DiskWait{{Device: "a", Seconds: 4}, {Device: "b", Seconds: 3}, {Device: "c", Seconds: 2}, {Device: "d", Seconds: 1}}, " (a 4 s, b 3 s, c 2 s)"},
	} {
		if got := disksText(c.waits); got != c.want {
			t.Errorf("%v: %q, want %q", c.waits, got, c.want)
		}
	}
}
