package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"reckon/figure/wire"
	"reckon/workload"
)

// Logs are not collected but fetched from where they are stored.

// logMargin is the time shown before the start and after the end, because clocks differ and programs start with a delay.
const logMargin = 2 * time.Second

// LogPlace identifies where the logs of a run are stored, and its time range.
type LogPlace struct {
	Namespace string
	Pods      []string
	// Containers lists the known containers of a pod, by pod name.
	Containers map[string][]string
	Unit       string // systemd unit
	Nodes      []string
	From, To   time.Time
	Running    bool
}

// PodPattern returns a regular expression that matches the names of the pods.
func (p *LogPlace) PodPattern() string {
	quoted := make([]string, len(p.Pods))
	for i, name := range p.Pods {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return strings.Join(quoted, "|")
}

// FindLogPlace returns the place of the logs of a run, or an error with the reason why it is unknown.
func FindLogPlace(d *wire.WorkloadDetail, now time.Time) (p LogPlace, err error) {
	p = LogPlace{From: d.Start.Add(-logMargin), To: now, Running: d.End == nil, Containers: map[string][]string{}}
	if d.End != nil {
		p.To = d.End.Add(logMargin)
	}
	id, kind := strings.SplitN(d.ID, "/", 3), workload.ID(d.ID).Kind()
	for _, x := range d.Parts {
		if !slices.Contains(p.Nodes, x.Node) {
			p.Nodes = append(p.Nodes, x.Node)
		}
	}
	switch {
	case kind.Unit() && len(id) == 2:
		p.Unit = id[1]
		return p, nil
	case len(id) < 3 || id[1] != d.Owner:
		return p, NotFound("", fmt.Errorf("the log location of %s is unknown; logs are supported for pods and systemd units", d.ID))
	}
	p.Namespace = id[1]
	for _, x := range d.Parts {
		pod, container := workload.InPod(workload.ID(d.ID), x.Part)
		if pod == "" {
			continue
		}
		if !slices.Contains(p.Pods, pod) {
			p.Pods = append(p.Pods, pod)
		}
		if container != "" && !slices.Contains(p.Containers[pod], container) {
			p.Containers[pod] = append(p.Containers[pod], container)
		}
	}
	if kind.BarePod() && len(p.Pods) == 0 {
		p.Pods = []string{id[2]}
	}
	if len(p.Pods) == 0 {
		return p, NotFound("", fmt.Errorf("no pods of %s are recorded", d.ID))
	}
	slices.Sort(p.Pods)
	return p, nil
}

// LogSource is a store of logs, such as Loki.
type LogSource interface {
	// Logs returns at most limit lines of a place in order of time: the first ones, or the last ones.
	Logs(ctx context.Context, p *LogPlace, first bool, limit int) (wire.Logs, error)
}

// Logs returns lines of the logs of a workload.
type Logs struct {
	Sources []LogSource // in order of preference: the first one with lines is used
	Clock   func() time.Time
}

// Logs returns log lines of a run that the viewer may see.
func (l *Logs) Logs(ctx context.Context, d *wire.WorkloadDetail, r wire.LogRange) (wire.Logs, error) {
	p, err := FindLogPlace(d, l.Clock())
	if err != nil {
		return wire.Logs{}, err
	}
	if r.Start.After(p.From) { // never outside the run: its name may have belonged to another workload
		p.From = r.Start
	}
	if !r.End.IsZero() && r.End.Before(p.To) {
		p.To = r.End
	}
	if !p.From.Before(p.To) {
		return wire.Logs{}, Invalid("ask for a time in which it ran", errors.New("the run has no logs of that time"))
	}
	logs, err := l.querySources(ctx, &p, r)
	var known *Error
	switch {
	case errors.As(err, &known):
		return logs, err
	case err != nil:
		return logs, Busy("ask again later, or look at the place of the logs", err)
	}
	logs.ID, logs.From, logs.To = d.ID, p.From.UTC(), p.To.UTC()
	return logs, nil
}

// querySources queries the sources in sequence until one has lines. If none has, it returns the first error.
func (l *Logs) querySources(ctx context.Context, p *LogPlace, r wire.LogRange) (logs wire.Logs, err error) {
	var failed []string
	answered := false
	for _, s := range l.Sources {
		found, ferr := s.Logs(ctx, p, r.First, r.Limit)
		switch {
		case ferr != nil:
			if err == nil {
				err = ferr
			}
			failed = append(failed, ferr.Error())
			continue
		case len(found.Lines) > 0 || !answered:
			logs, answered = found, true
		}
		if len(found.Lines) > 0 {
			break // the remaining sources have the same lines
		}
	}
	if !answered {
		return logs, err
	}
	logs.Missing = append(logs.Missing, failed...)
	return logs, nil
}

// SortLogs sorts lines by time and keeps the first or the last of them.
func SortLogs(lines []wire.LogLine, first bool, limit int) (kept []wire.LogLine, more bool) {
	slices.SortStableFunc(lines, func(a, b wire.LogLine) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	switch more = len(lines) > limit; {
	case more && first:
		lines = lines[:limit]
	case more:
		lines = lines[len(lines)-limit:]
	}
	return lines, more
}
