package account

import (
	"maps"
	"slices"
	"strings"

	"reckon/metric"
	"reckon/workload"
)

// The kubelet reports an ended container until its pod is deleted or the container restarts: its
// exit, its number of starts, and the wait for the next start. The account is closed and forgotten
// long before that. The report continues, and an agent that starts after the end resumes it.

// mustExportReport reports whether the kubelet still lists an ended container and p has to export its report. That is
// not so if another exported part has the same name. A container that was just restarted has no report yet.
func (r *registry) mustExportReport(p *Part) bool {
	if p.container == nil || p.superseded || r.config.Container == nil {
		return false
	}
	if now := r.byKey[p.partKey]; now != nil && now != p && now.phase >= exported && now.container != nil &&
		now.container.facts.Name == p.container.facts.Name {
		return false
	}
	f := r.config.Container(p.place, true)
	if f == nil || f.UID != p.container.facts.UID || f.Name != p.container.facts.Name || f.Type != p.container.facts.Type {
		return false
	}
	p.container.facts = f
	return true
}

// isReport reports whether a series is the report of a supervisor rather than a measurement.
func isReport(d *metric.Desc) bool {
	return strings.HasPrefix(d.Name, "reckon_pod_") || slices.Contains(containerReports, d)
}

var containerReports = []*metric.Desc{containerInfo, containerRunning, containerReady, containerRestarts, containerWaiting, containerExit,
	containerExitBefore}

// exportReports appends the reports of ended containers.
func (r *registry) exportReports(b *metric.Batch) {
	maps.DeleteFunc(r.reported, func(_ partKey, p *Part) bool {
		if r.mustExportReport(p) {
			p.exportReport(b)
			return false
		}
		p.endReport(r.byKey[p.partKey], b)
		return true
	})
}

// Report adds the report of a container or pod without an account, because it ended before the ledger was created.
// f.Type is "sandbox" for a pod. place is the pod UID, a slash and the container ID.
func (l *Ledger) Report(id *workload.Identity, place string, f *workload.ContainerFacts) {
	k := partKey{id.Workload, id.Part, id.Owner}
	if l.Holds(id) || l.Reports(id) {
		return
	}
	l.parts.reported[k] = &Part{partKey: k, kind: k.id.Kind(), partNames: partNames{place: place}, container: &container{facts: f}}
}

// Reports reports whether the ledger still exports the report of a container or pod without an open account.
func (l *Ledger) Reports(id *workload.Identity) bool {
	return l.parts.reported[partKey{id.Workload, id.Part, id.Owner}] != nil
}

// endReport ends the series of a container that is no longer reported, except the series that the next container continues.
// next may be nil.
func (p *Part) endReport(next *Part, b *metric.Batch) {
	var others [11]*metric.Series
	if next != nil {
		others = next.container.reportSeries()
	}
	for i, s := range p.container.reportSeries() {
		if o := others[i]; s != nil && (o == nil || !slices.Equal(s.Values, o.Values)) {
			b.End(s)
		}
	}
}

// reportSeries returns the series of a container's report, or nil if there is none.
func (c *container) reportSeries() [11]*metric.Series {
	if c == nil {
		return [11]*metric.Series{}
	}
	return [...]*metric.Series{c.info, c.running, c.ready, c.restarts, c.waiting, c.exit, c.exitBefore, c.pod.info, c.pod.phase,
		c.pod.ready, c.pod.created}
}
