// Package compat shows the same accounts under the names of other programs, so that
// dashboards and alerts made for them go on working: Kepler 0.10 and newer,
// dcgm-exporter, the Waggle jetson-exporter, cAdvisor and kube-state-metrics.
//
// A [View] is a pure function from the samples of an export to more samples. Names,
// labels and units are those of the original, also where its unit is not the one the
// conventions ask for; our own names hold the correct ones. What reckon does not
// measure is absent from a view, never zero.
//
// A view is used from one goroutine. It keeps the series it has made, so that a steady
// machine allocates nothing.
package compat

import (
	"fmt"
	"slices"
	"strings"

	"reckon/metric"
)

// View makes samples under other names.
type View interface {
	// Name is the word for the view in --compat.
	Name() string
	// Descs lists everything that Append may add.
	Descs() []*metric.Desc
	// Append adds to b what the first n samples of it are called by another program.
	// It never changes those samples.
	Append(b *metric.Batch, n int)
}

// entry is a view by its name.
type entry struct {
	name string
	make func(node string) View
}

// views lists every view: adding one is a file and a line here.
func views() []entry {
	return []entry{
		{CAdvisorName, CAdvisor},
		{"dcgm", DCGM},
		{"kepler", Kepler},
		{KubeName, Kube},
		{"tegra", Tegra},
	}
}

// Names lists the views.
func Names() []string {
	var names []string
	for _, e := range views() {
		names = append(names, e.name)
	}
	return names
}

// New returns the views of the given names for the node.
func New(node string, names []string) ([]View, error) {
	var out []View
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		at := slices.IndexFunc(views(), func(e entry) bool { return e.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no compatible view %q; there are %s", name, strings.Join(Names(), ", "))
		}
		out = append(out, views()[at].make(node))
	}
	return out, nil
}
