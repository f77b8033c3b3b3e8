// Package apitest provides an in-memory backend of web/api and a small site to fill it
// with, for tests of the API, the client and the command line. The figures are
// constructed, and consistent.
package apitest

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/answer"
	"reckon/figure"
	"reckon/web/client"
)

// Backend answers from slices. It is safe for concurrent use while its fields do not change.
type Backend struct {
	Details []client.WorkloadDetail
	Machine []client.Node
	Missing []string
	Err     error // returned by every call

	mu    sync.Mutex
	asked []client.Filter
}

// Asked returns the filters of all calls so far.
func (b *Backend) Asked() []client.Filter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// Workloads filters, sorts and limits like a catalogue.
func (b *Backend) Workloads(_ context.Context, f client.Filter) (client.WorkloadList, error) {
	b.mu.Lock()
	b.asked = append(b.asked, f)
	b.mu.Unlock()
	if b.Err != nil {
		return client.WorkloadList{}, b.Err
	}
	list := client.WorkloadList{Missing: b.Missing}
	for _, d := range b.Details {
		if matchesFilter(d.Workload, f) {
			list.Workloads = append(list.Workloads, d.Workload)
		}
	}
	list.Total = len(list.Workloads)
	key, descending := strings.CutPrefix(f.Sort, "-")
	slices.SortStableFunc(list.Workloads, func(x, y client.Workload) int {
		v, w := fieldValue(x, key), fieldValue(y, key)
		c := compareValues(v, w)
		if descending || (v == nil) != (w == nil) { // unknown is last in either direction
			c = -c
		}
		return cmp.Or(c, cmp.Compare(x.ID, y.ID))
	})
	list.Workloads = list.Workloads[min(f.Offset, len(list.Workloads)):]
	if f.Limit > 0 {
		list.Workloads = list.Workloads[:min(f.Limit, len(list.Workloads))]
	}
	return list, nil
}

func matchesFilter(w client.Workload, f client.Filter) bool {
	among := func(have string, want []string) bool { return len(want) == 0 || slices.Contains(want, have) }
	end := w.Seen
	if w.End != nil {
		end = *w.End
	}
	name, err := path.Match(f.Name, w.Name)
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, w.ID), f.Family != "" && w.ID != f.Family && !strings.HasPrefix(w.ID, f.Family+"_") &&
		!strings.HasPrefix(w.ID, f.Family+"+"),
		!among(w.Kind, f.Kinds), !among(w.Owner, f.Owners),
		!among(w.Account, f.Accounts), !among(w.Partition, f.Partitions), !among(w.State, f.States), !among(w.Site, f.Sites),
		f.Command != "" && !matchGlob(f.Command, w.Command),
		len(f.Nodes) > 0 && !slices.ContainsFunc(w.Nodes, func(n string) bool { return slices.Contains(f.Nodes, n) }),
		f.Name != "" && (err != nil || !name),
		!f.Since.IsZero() && end.Before(f.Since), !f.Until.IsZero() && w.Start.After(f.Until),
		f.MinCPU > 0 && (w.CPUSeconds == nil || *w.CPUSeconds < f.MinCPU),
		f.Running != nil && *f.Running != w.Running:
		return false
	}
	return true
}

func matchGlob(pattern, s string) bool {
	ok, err := path.Match(pattern, s)
	return ok && err == nil
}

func fieldValue(w client.Workload, key string) any {
	if i := figure.Index(figure.Runs, key); i >= 0 {
		if p := *w.Row.At(i); p != nil {
			return *p
		}
		return nil
	}
	v := reflect.ValueOf(w)
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == key {
			if f := v.Field(i); f.Kind() != reflect.Pointer {
				return f.Interface()
			} else if !f.IsNil() {
				return f.Elem().Interface()
			}
		}
	}
	return nil
}

// compareValues orders values; an unknown value is the least.
func compareValues(a, b any) int {
	switch x := a.(type) {
	case float64:
		if y, ok := b.(float64); ok {
			return cmp.Compare(x, y)
		}
		return 1
	case string:
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y)
		}
	case time.Time:
		if y, ok := b.(time.Time); ok {
			return x.Compare(y)
		}
		return 1
	}
	if b != nil {
		return -1
	}
	return 0
}

// Workload returns the details of a run; the profile is cut to the range.
func (b *Backend) Workload(_ context.Context, w client.Workload, r client.Range) (client.WorkloadDetail, error) {
	if b.Err != nil {
		return client.WorkloadDetail{}, b.Err
	}
	for _, d := range b.Details {
		if d.ID != w.ID || d.Site != w.Site || !d.Start.Equal(w.Start) {
			continue
		}
		profiles := d.Profile
		d.Profile = nil
		for _, p := range profiles {
			p.Points = slices.DeleteFunc(slices.Clone(p.Points), func(x client.Point) bool {
				return (!r.From.IsZero() && x.Time.Before(r.From)) || (!r.To.IsZero() && x.Time.After(r.To))
			})
			d.Profile = append(d.Profile, p)
		}
		if r.Step > 0 {
			d.StepSeconds = r.Step.Seconds()
		}
		return d, nil
	}
	return client.WorkloadDetail{}, answer.NotFound("", fmt.Errorf("no such workload: %s", w.ID))
}

// Scale implements api.Scale. It returns the same result for every workload: runs on 1 to 16 cores, with a serial part
// of one tenth.
func (b *Backend) Scale(_ context.Context, w client.Workload) (client.Scale, error) {
	law := &client.ScaleFit{Serial: 0.1, OneCore: 1000, Sizes: 3, Runs: 4, Error: f(0.02), SerialLow: f(0.09), SerialHigh: f(0.11),
		SpeedupLimit: f(10)}
	s := client.Scale{Workload: w, StepSeconds: 30, LeftOut: 2, Amdahl: law, Resources: []client.ScaleResource{
		{Resource: "cores", Unit: "cores", Held: w.RequestCores, Mean: w.CoresMean, P50: w.CoresP50, P95: w.CoresP95, Max: w.CoresMax},
		{Resource: "gpu_memory", Unit: "bytes", Mean: f(1 << 30), P50: f(1 << 30), P95: f(2 << 30), Max: f(3 << 30)},
	}}
	for i, cores := range []float64{1, 4, 4, 16} {
		speed := law.Speedup(cores)
		s.Runs = append(s.Runs, client.ScaleRun{ID: fmt.Sprintf("slurm/%d", 100+i), Start: w.Start, Cores: cores, CoresFrom: "requested",
			Seconds: law.OneCore / speed, Speedup: &speed})
	}
	s.Verdicts = []client.Verdict{
		{Kind: "law", Severity: "info", Text: "10% of the work does not run in parallel", Value: 0.1, Unit: "ratio"}}
	return s, nil
}

// Nodes returns the machines.
func (b *Backend) Nodes(context.Context) (client.NodeList, error) {
	return client.NodeList{Nodes: b.Machine, Missing: b.Missing}, b.Err
}
