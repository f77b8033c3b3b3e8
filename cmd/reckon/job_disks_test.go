package main

import (
	"testing"

	"reckon/web/client"
)

// Three disks at most are named, and none for which it hardly waited; the rest is named from a tenth of the whole on.
func TestDisksText(t *testing.T) {
	for _, c := range []struct {
		waits []client.DiskWait
		all   float64
		want  string
	}{
		{nil, 80, ""},
		{[]client.DiskWait{{Device: "sda", Seconds: 0.099}}, 0.099, ""},
		{[]client.DiskWait{{Device: "sda", Seconds: 80}, {Device: "dm-0", Seconds: 0.1}}, 80.1, " (sda 1m 20s, dm-0 100 ms)"},
		{[]client.DiskWait{{Device: "a", Seconds: 4}, {Device: "b", Seconds: 3}, {Device: "c", Seconds: 2}, {Device: "d", Seconds: 1}}, 10, " (a 4 s, b 3 s, c 2 s)"},
		{[]client.DiskWait{{Device: "sda", Seconds: 90}}, 100, " (sda 1m 30s, no known disk 10 s)"},
		{[]client.DiskWait{{Device: "sda", Seconds: 91}}, 100, " (sda 1m 31s)"},
		{[]client.DiskWait{{Device: "sda", Seconds: 0.25}}, 0.3125, " (sda 250 ms)"},
		{[]client.DiskWait{{Device: "sda", Seconds: 0.25}}, 0.375, " (sda 250 ms, no known disk 125 ms)"},
		{[]client.DiskWait{{Device: "sda", Seconds: 5}}, 4, " (sda 5 s)"},
	} {
		if got := formatDisks(c.waits, &c.all); got != c.want {
			t.Errorf("%v: %q, want %q", c.waits, got, c.want)
		}
	}
}
