// Package compat shows the accounts under the metric names of other programs, so that
// dashboards and alerts made for them keep working: Kepler 0.10 and newer,
// dcgm-exporter, the Waggle jetson-exporter, cAdvisor and kube-state-metrics.
//
// A [View] is a pure function from the samples of an export to more samples. Names,
// labels and units are as in the original, even where its unit violates the
// conventions; our own names have the correct units. Figures that reckon does not
// measure are absent from a view, never zero.
//
// A view is not safe for concurrent use. It caches its series, so that a steady
// machine causes no allocations.
package compat

import (
	"fmt"
	"slices"
	"strings"

	"reckon/metric"
)

// View converts samples to other names.
type View interface {
	// Name is the name of the view in the setting compat.
	Name() string
	// Descs lists everything that Append may add.
	Descs() []*metric.Desc
	// Append adds the samples of another program that correspond to the first n samples of b to b.
	// It never changes those samples.
	Append(b *metric.Batch, n int)
}

// namedView is a view with its name.
type namedView struct {
	name string
	make func(node string) View
}

// allViews lists every view. A new view needs a file and a line here.
func allViews() []namedView {
	return []namedView{
		{CAdvisorName, CAdvisor},
		{"dcgm", DCGM},
		{"kepler", Kepler},
		{KubeName, Kube},
		{"tegra", Tegra},
	}
}

// Names lists the names of the views.
func Names() []string {
	var names []string
	for _, e := range allViews() {
		names = append(names, e.name)
	}
	return names
}

// New returns the views with the given names for the node.
func New(node string, names []string) ([]View, error) {
	var out []View
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		at := slices.IndexFunc(allViews(), func(e namedView) bool { return e.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no compatible view %q; there are %s", name, strings.Join(Names(), ", "))
		}
		out = append(out, allViews()[at].make(node))
	}
	return out, nil
}
