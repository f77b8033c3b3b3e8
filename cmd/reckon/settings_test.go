package main

import (
	"testing"

	"reckon/cmd/commandtest"
	"reckon/cmd/settings"
)

// TestSettingsPage holds the list of settings to the settings that exist.
func TestSettingsPage(t *testing.T) {
	g := &globals{deps: deps{getenv: func(string) string { return "" }}}
	g.registerStages()
	set := settings.New()
	set.Add(g.serving)
	new(siteOptions).register(set)
	commandtest.CheckSettings(t, "../../doc/settings.md", "reckon", set.Keys, *update)
}

// TestFlags counts the flags, also of `kubectl reckon`.
func TestFlags(t *testing.T) {
	g := &globals{deps: deps{getenv: func(string) string { return "" }}}
	n := commandtest.CountFlags(newTree(g.deps, ""), new(plugin).flagSet())
	if limit := commandtest.ReadLimit(t, "../../internal/archtest/gates.txt", "flags-reckon"); n > limit {
		t.Errorf("%d flags are registered, at most %d: what a site sets once is a setting (see cmd/settings)", n, limit)
	}
	t.Logf("%d flags", n)
}
