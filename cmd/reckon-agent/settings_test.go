package main

import (
	"flag"
	"testing"

	"reckon/cmd/commandtest"
)

var update = flag.Bool("update", false, "write the page of settings")

// TestSettingsPage holds the list of settings to the settings that exist.
func TestSettingsPage(t *testing.T) {
	commandtest.CheckSettings(t, "../../doc/settings.md", "reckon-agent", newOptions().set.Keys, *update)
}

// TestFlags counts the flags.
func TestFlags(t *testing.T) {
	n := commandtest.CountFlags(newRoot())
	if limit := commandtest.ReadLimit(t, "../../internal/archtest/gates.txt", "flags-agent"); n > limit {
		t.Errorf("%d flags are registered, at most %d: what a site sets once is a setting (see cmd/settings)", n, limit)
	}
	t.Logf("%d flags", n)
}
