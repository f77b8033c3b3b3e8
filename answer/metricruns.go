package answer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/figure/wire"
	"reckon/store"
)

// MetricRuns stores and returns runs of MetricSets. Callers must check access. It is safe for concurrent use.
type MetricRuns struct {
	Store store.MetricRuns
	// Agent returns samples from the agent's series for pods with attach "agent"; nil without series.
	Agent PodSeries
	// Parse extracts the figures from a benchmark's log; nil extracts none. rest is the unparsed text, note names missing parts.
	Parse func(log string) (figures []wire.MetricRunReport, rest, note string)
	Clock func() time.Time

	mu sync.Mutex // held while a run is read, changed and written
}

// Limits per run. Beyond maxTables bytes, process tables of a pod are left out.
const (
	maxTables     = 32 << 20
	maxRunPods    = 20_000
	maxRunSamples = 10_000_000
)

// podDocument is the stored document of a pod.
type podDocument struct {
	wire.MetricRunPod
	TableBytes int `json:"table_bytes,omitempty"`
}

// Keep stores an update of a run. An update may be repeated or late; it does not restart a run that has ended.
func (m *MetricRuns) Keep(ctx context.Context, namespace, name string, u wire.MetricRunUpdate) (kept wire.MetricRunKept, err error) {
	if err := checkUpdate(namespace, name, &u); err != nil {
		return kept, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run, err := m.updatedHeader(ctx, namespace, name, &u)
	if err != nil {
		return kept, err
	}
	there, err := m.Store.MetricRunPods(ctx, namespace, name)
	if err != nil {
		return kept, err
	}
	if len(there)+len(u.Run.Pods) > maxRunPods {
		return kept, Invalid("split the MetricSet", fmt.Errorf("a run has at most %d pods", maxRunPods))
	}
	var pods []store.MetricRunPod
	var samples []store.MetricRunSample
	for _, p := range u.Run.Pods {
		doc := podDocument{}
		if i := slices.IndexFunc(there, func(t store.MetricRunPod) bool { return t.UID == p.UID }); i >= 0 {
			if err := json.Unmarshal(there[i].Document, &doc); err != nil {
				return kept, fmt.Errorf("pod %s of %s/%s: %w", p.Name, namespace, name, err)
			}
		}
		if u.Run.Origin == "" && m.Parse != nil && p.Text != "" && len(p.Reported) == 0 { // from the operator, at the end of a run
			note := ""
			p.Reported, p.Text, note = m.Parse(p.Text)
			p.Incomplete = cmp.Or(p.Incomplete, note)
		}
		doc.mergeDescription(&p)
		if p.UID == u.Pod {
			if samples, err = doc.addSamples(u.Samples); err != nil {
				return kept, err
			}
			kept = doc.keptState()
		}
		text, err := json.Marshal(doc)
		if err != nil {
			return kept, err
		}
		pods = append(pods, store.MetricRunPod{UID: p.UID, Samples: doc.Samples, Document: text})
	}
	return kept, m.Store.PutMetricRun(ctx, *run, pods, samples)
}

// checkUpdate rejects invalid updates.
func checkUpdate(namespace, name string, u *wire.MetricRunUpdate) error {
	bad := func(format string, args ...any) error {
		return Invalid("see MetricRunUpdate in the OpenAPI document", fmt.Errorf(format, args...))
	}
	for what, text := range map[string]string{"namespace": namespace, "name": name} {
		if text == "" || len(text) > 253 || strings.ContainsAny(text, "/ \x00\n") {
			return bad("%q is no %s", text, what)
		}
	}
	seen := map[string]bool{}
	for _, p := range u.Run.Pods {
		if p.UID == "" || len(p.UID) > 253 || seen[p.UID] {
			return bad("the uid %q of pod %q is empty, too long or there twice", p.UID, p.Name)
		}
		seen[p.UID] = true
	}
	if u.Pod != "" && !seen[u.Pod] || u.Pod == "" && len(u.Samples) > 0 {
		return bad("the samples are of pod %q, which is not among the pods of the update", u.Pod)
	}
	for i, s := range u.Samples {
		if s.Seq < 1 || s.Seq > maxRunSamples || !s.From.Before(s.To) || i > 0 && s.Seq <= u.Samples[i-1].Seq {
			return bad("sample %d: number out of range or not ascending, or its end is not after its start", s.Seq)
		}
	}
	return nil
}

// updatedHeader returns the row of a run after an update. Fields missing from the update keep their values. An update does not
// restart a run that has ended.
func (m *MetricRuns) updatedHeader(ctx context.Context, namespace, name string, u *wire.MetricRunUpdate) (*store.MetricRun, error) {
	list, _, err := m.Store.MetricRuns(ctx, store.MetricRunFilter{Namespaces: []string{namespace}, Names: []string{name}})
	if err != nil {
		return nil, err
	}
	r := u.Run
	r.Namespace, r.Name, r.Pods, r.Samples = namespace, name, nil, 0
	if len(list) > 0 {
		was, err := toHeader(&list[0])
		if err != nil {
			return nil, err
		}
		if r.Set == "" {
			outcome, finished := r.Outcome, r.Finished
			r = was
			if outcome != "" {
				r.Outcome, r.Finished = outcome, finished
			}
		}
		if r.Started.IsZero() || was.Started.Before(r.Started) {
			r.Started = was.Started
		}
		if was.Finished != nil {
			r.Outcome, r.Finished = was.Outcome, was.Finished
		}
	}
	if r.Set == "" {
		return nil, NotFound("send set and started with the first update", fmt.Errorf("there is no run %s/%s", namespace, name))
	}
	r.Outcome = cmp.Or(r.Outcome, "Running")
	if r.Started.IsZero() {
		r.Started = m.Clock().UTC()
	}
	for _, p := range u.Run.Pods { // the sender may have come later
		if p.Started != nil && p.Started.Before(r.Started) {
			r.Started = *p.Started
		}
	}
	out := &store.MetricRun{Namespace: namespace, Name: name, Site: r.Site, Set: r.Set, Outcome: r.Outcome, Started: r.Started}
	if r.Finished != nil {
		out.Finished = *r.Finished
	}
	out.Document, err = json.Marshal(r)
	return out, err
}

func toHeader(r *store.MetricRun) (out wire.MetricRun, err error) {
	if err := json.Unmarshal(r.Document, &out); err != nil {
		return out, fmt.Errorf("run %s/%s: %w", r.Namespace, r.Name, err)
	}
	out.Samples = r.Samples
	return out, nil
}

// mergeDescription merges the description of a pod from an update, except for fields derived from samples.
func (d *podDocument) mergeDescription(p *wire.MetricRunPod) {
	was := *d
	d.MetricRunPod = *p
	d.Samples, d.Total, d.Commands, d.First, d.Last, d.TablesDropped = was.Samples, was.Total, was.Commands, was.First, was.Last,
		was.TablesDropped
	for _, s := range []struct{ now, was *string }{
		{&d.Name, &was.Name}, {&d.Job, &was.Job}, {&d.Node, &was.Node}, {&d.Kernel, &was.Kernel}, {&d.Ended, &was.Ended},
		{&d.Incomplete, &was.Incomplete}, {&d.Text, &was.Text},
	} {
		*s.now = cmp.Or(*s.now, *s.was)
	}
	for _, t := range []struct{ now, was **time.Time }{{&d.Started, &was.Started}, {&d.Finished, &was.Finished}, {&d.Probe, &was.Probe}} {
		*t.now = cmp.Or(*t.now, *t.was)
	}
	for _, s := range []struct{ now, was *map[string]string }{{&d.Images, &was.Images}, {&d.Resources, &was.Resources},
		{&d.Absent, &was.Absent}} {
		if len(*s.now) == 0 {
			*s.now = *s.was
		}
	}
	d.ExitCode, d.Result, d.Offset = cmp.Or(d.ExitCode, was.ExitCode), cmp.Or(d.Result, was.Result), max(d.Offset, was.Offset)
	if len(d.Reported) == 0 {
		d.Reported = was.Reported
	}
}

// addSamples adds the samples that are not stored yet.
func (d *podDocument) addSamples(samples []wire.ProbeSample) (out []store.MetricRunSample, err error) {
	for _, s := range samples {
		if s.Seq <= d.Samples {
			continue
		}
		if d.Samples == 0 {
			d.Total, d.First = s.Total, &s.From
		} else {
			d.Total = d.Total.Plus(s.Total)
		}
		d.Samples, d.Last = s.Seq, &s.To
		d.addCommands(s.Commands)
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if len(s.Processes)+len(s.Threads) > 0 {
			d.TableBytes += len(text)
			if d.TableBytes > maxTables {
				s.Processes, s.Threads, s.Dropped, d.TablesDropped = nil, nil, true, true
				if text, err = json.Marshal(s); err != nil {
					return nil, err
				}
			}
		}
		out = append(out, store.MetricRunSample{Pod: d.UID, Seq: s.Seq, From: s.From, To: s.To, Document: text})
	}
	return out, nil
}

// addCommands adds the use of each command.
func (d *podDocument) addCommands(rows []wire.ProbeRow) {
	for _, row := range rows {
		i := slices.IndexFunc(d.Commands, func(c wire.ProbeRow) bool { return c.Command == row.Command })
		if i < 0 {
			d.Commands = append(d.Commands, wire.ProbeRow{Command: row.Command, Count: row.Count, ProbeUse: row.ProbeUse})
			continue
		}
		d.Commands[i].Count, d.Commands[i].ProbeUse = row.Count, d.Commands[i].Plus(row.ProbeUse)
	}
}

func (d *podDocument) keptState() wire.MetricRunKept {
	k := wire.MetricRunKept{Samples: d.Samples, Offset: d.Offset}
	if d.Probe != nil {
		k.Start = *d.Probe
	}
	if d.Last != nil {
		k.Last = *d.Last
	}
	return k
}

// List returns the runs, the latest first.
func (m *MetricRuns) List(ctx context.Context, f wire.MetricRunFilter) (wire.MetricRunList, error) {
	out := wire.MetricRunList{Runs: []wire.MetricRun{}}
	rows, total, err := m.Store.MetricRuns(ctx,
		store.MetricRunFilter{Namespaces: f.Namespaces, Sets: f.Sets, Sites: f.Sites, Names: f.Names, Since: f.Since, Until: f.Until,
			Limit: f.Limit, Offset: f.Offset})
	if err != nil {
		return out, err
	}
	for i := range rows {
		r, err := toHeader(&rows[i])
		if err != nil {
			return out, err
		}
		out.Runs = append(out.Runs, r)
	}
	out.Total = total
	return out, nil
}

// Run returns one run with its pods, the first job's first.
func (m *MetricRuns) Run(ctx context.Context, namespace, name string) (wire.MetricRun, error) {
	r, _, err := m.readRun(ctx, namespace, name)
	return r, err
}

// Samples returns the samples of a run. Samples of pods measured by the agent come from its series.
func (m *MetricRuns) Samples(ctx context.Context, namespace, name string) (wire.MetricRunSamples, error) {
	_, s, err := m.readRun(ctx, namespace, name)
	return s, err
}

// readRun returns a run with all its samples.
func (m *MetricRuns) readRun(ctx context.Context, namespace, name string) (r wire.MetricRun, s wire.MetricRunSamples, err error) {
	list, _, err := m.Store.MetricRuns(ctx, store.MetricRunFilter{Namespaces: []string{namespace}, Names: []string{name}})
	if err != nil {
		return r, s, err
	}
	if len(list) == 0 {
		return r, s, NoMetricRun(namespace, name)
	}
	if r, err = toHeader(&list[0]); err != nil {
		return r, s, err
	}
	pods, err := m.Store.MetricRunPods(ctx, namespace, name)
	if err != nil {
		return r, s, err
	}
	rows, err := m.Store.MetricRunSamples(ctx, namespace, name)
	if err != nil {
		return r, s, err
	}
	for _, p := range pods {
		var doc podDocument
		if err := json.Unmarshal(p.Document, &doc); err != nil {
			return r, s, fmt.Errorf("pod of %s/%s: %w", namespace, name, err)
		}
		series := wire.MetricRunSeries{Pod: doc.Name, UID: doc.UID, Job: doc.Job, Samples: []wire.ProbeSample{}}
		for len(rows) > 0 && rows[0].Pod == p.UID {
			var one wire.ProbeSample
			if err := json.Unmarshal(rows[0].Document, &one); err != nil {
				return r, s, fmt.Errorf("sample of %s/%s: %w", namespace, name, err)
			}
			series.Samples, rows = append(series.Samples, one), rows[1:]
		}
		if m.agentMeasures(&r, &doc) {
			if err := m.addAgentSamples(ctx, &r, &doc, &series); err != nil {
				return r, s, err
			}
			r.Samples += doc.Samples
		}
		r.Pods, s.Pods = append(r.Pods, doc.MetricRunPod), append(s.Pods, series)
	}
	slices.SortStableFunc(r.Pods, func(a, b wire.MetricRunPod) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(s.Pods, func(a, b wire.MetricRunSeries) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Pod, b.Pod))
	})
	return r, s, nil
}

// NoMetricRun returns the error for a run that does not exist or that the viewer may not see.
func NoMetricRun(namespace, name string) error {
	return NotFound("`reckon runs` lists them", errors.New("no such run: "+namespace+"/"+name))
}
