package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"reckon/web/client"
	"reckon/workload"
)

// Batch systems reuse ids when their job numbers wrap or their database is new. Site, id and start
// together identify a run.

// maxRuns is the maximum number of runs of an id that are searched.
const maxRuns = 1000

// findRun returns the run that text identifies, and all runs with its id that the viewer may see, the latest first. text
// is an id with or without its kind, or a part of an id. For a full id it makes only one query.
func (s *server) findRun(ctx context.Context, text string, r client.Range) (*client.Workload, []client.Workload, error) {
	ids := []string{text}
	for _, k := range workload.Kinds() {
		ids = append(ids, string(workload.MakeID(k, text)))
	}
	list, err := s.Backend.Workloads(ctx, client.Filter{IDs: ids, Sort: "-start", Limit: maxRuns})
	if err != nil {
		return nil, nil, err
	}
	by := map[string][]client.Workload{}
	for _, w := range list.Workloads {
		by[w.ID] = append(by[w.ID], w)
	}
	found := slices.DeleteFunc(ids, func(id string) bool { return len(by[id]) == 0 })
	switch {
	case len(found) > 0 && found[0] == text:
		found = found[:1]
	case len(found) > 1:
		return nil, nil, ambiguousError(text, found)
	case len(found) == 0:
		id, err := s.resolveID(ctx, text)
		if err != nil {
			return nil, nil, err
		}
		if list, err = s.Backend.Workloads(ctx, client.Filter{IDs: []string{id}, Sort: "-start", Limit: maxRuns}); err != nil {
			return nil, nil, err
		}
		found, by[id] = []string{id}, list.Workloads
	}
	id := found[0]
	one, err := selectRun(id, by[id], r)
	return one, by[id], err
}

// selectRun returns the run in all that a range selects. Without a time it is the latest run. With a time, it is the
// run that started then, or else the run that was active then, or else a run that started within the following minute,
// because people omit seconds. If several sites use the id, the range must name the site, or its time must match only
// one site.
func selectRun(id string, all []client.Workload, r client.Range) (*client.Workload, error) {
	if len(all) == 0 {
		return nil, noWorkloadError(id)
	}
	at := r.Start
	if r.Site != "" {
		here := slices.DeleteFunc(slices.Clone(all), func(w client.Workload) bool { return w.Site != r.Site })
		if len(here) == 0 {
			return nil, newError(http.StatusNotFound, "it is of "+strings.Join(listSites(all), ", "), "%s is not at the site %s", id,
				r.Site)
		}
		all = here
	}
	if at.IsZero() {
		return latestRun(id, all)
	}
	for _, fits := range []func(w *client.Workload) bool{
		func(w *client.Workload) bool { return at.Sub(w.Start).Abs() < time.Second },
		func(w *client.Workload) bool { return !at.Before(w.Start) && !at.After(runEnd(w)) },
		func(w *client.Workload) bool { return at.Before(w.Start) && w.Start.Sub(at) <= time.Minute },
	} {
		if then := slices.DeleteFunc(slices.Clone(all), func(w client.Workload) bool { return !fits(&w) }); len(then) > 0 {
			return latestRun(id, then)
		}
	}
	var spans []string
	for i := range all {
		if i == 5 {
			spans = append(spans, fmt.Sprintf("and %d before", len(all)-i))
			break
		}
		w := &all[i]
		span := "from " + w.Start.UTC().Format(time.RFC3339) + " on"
		if !w.Running {
			span = "from " + w.Start.UTC().Format(time.RFC3339) + " to " + runEnd(w).UTC().Format(time.RFC3339)
		}
		spans = append(spans, span)
	}
	return nil, newError(http.StatusNotFound, "give the start of one of its runs: "+strings.Join(spans, "; "),
		"%s was not there at %s", id, at.UTC().Format(time.RFC3339))
}

// latestRun returns the latest of some workloads with one id, if all are of one site.
func latestRun(id string, list []client.Workload) (*client.Workload, error) {
	if sites := listSites(list); len(sites) > 1 {
		return nil, newError(http.StatusConflict, "name the site, or its start: "+strings.Join(sites, ", "),
			"%s is a workload of each of %d sites", id, len(sites))
	}
	return &list[0], nil
}

// listSites describes each site of the workloads by the owner and the start of its latest run.
func listSites(list []client.Workload) (out []string) {
	seen := map[string]bool{}
	for i := range list {
		w := &list[i]
		if seen[w.Site] {
			continue
		}
		seen[w.Site] = true
		out = append(out, fmt.Sprintf("%s (of %s, started %s)", cmp.Or(w.Site, "no site"), cmp.Or(w.Owner, "nobody"),
			w.Start.UTC().Format(time.RFC3339)))
	}
	return out
}

// runEnd returns the last moment of a run.
func runEnd(w *client.Workload) time.Time {
	if w.End != nil && w.End.After(w.Seen) {
		return *w.End
	}
	return w.Seen
}

// otherRuns returns the runs at a site, for the page of one of them; nil if there is only one.
func otherRuns(runs []client.Workload, site string) (out []client.Run) {
	for i := range runs {
		if w := &runs[i]; w.Site == site {
			out = append(out, client.Run{Start: w.Start, End: w.End, Owner: w.Owner, Name: w.Name})
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}
