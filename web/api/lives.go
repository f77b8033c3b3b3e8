package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"reckon/client"
	"reckon/web/access"
)

// Batch systems give an id again when their numbers wrap or their database is new; site,
// id and start are what names a workload for good.

// listedLives is how many lives of an id are looked through.
const listedLives = 1000

// life returns the workload with the life that the range asks for.
func (s *server) life(ctx context.Context, id string, r client.Range) (client.WorkloadDetail, error) {
	if !r.Start.IsZero() {
		if v := access.From(ctx); v.Role == access.Public {
			return client.WorkloadDetail{}, fail(http.StatusForbidden, "sign in", "a workload is shown to its owner only")
		}
		w, err := s.livedAt(ctx, id, r.Start)
		if err != nil {
			return client.WorkloadDetail{}, err
		}
		r.Start = w.Start
	}
	return s.Backend.Workload(ctx, id, r)
}

// livedAt finds the life of an id that began at a time, or else was there then, or else
// began within the minute that follows: people write times without seconds.
func (s *server) livedAt(ctx context.Context, id string, at time.Time) (*client.Workload, error) {
	list, err := s.Backend.Workloads(ctx, client.Filter{ID: id, Sort: "-start", Limit: listedLives})
	if err != nil {
		return nil, err
	}
	if len(list.Workloads) == 0 {
		return nil, fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	for _, fits := range []func(w *client.Workload) bool{
		func(w *client.Workload) bool { return at.Sub(w.Start).Abs() < time.Second },
		func(w *client.Workload) bool { return !at.Before(w.Start) && !at.After(until(w)) },
		func(w *client.Workload) bool { return at.Before(w.Start) && w.Start.Sub(at) <= time.Minute },
	} {
		for i := range list.Workloads {
			if w := &list.Workloads[i]; fits(w) {
				return w, nil
			}
		}
	}
	var spans []string
	for i := range list.Workloads {
		if i == 5 {
			spans = append(spans, fmt.Sprintf("and %d before", list.Total-i))
			break
		}
		w := &list.Workloads[i]
		span := "from " + w.Start.UTC().Format(time.RFC3339) + " on"
		if !w.Running {
			span = "from " + w.Start.UTC().Format(time.RFC3339) + " to " + until(w).UTC().Format(time.RFC3339)
		}
		spans = append(spans, span)
	}
	return nil, fail(http.StatusNotFound, "give the start of one of its lives: "+strings.Join(spans, "; "),
		"%s was not there at %s", id, at.UTC().Format(time.RFC3339))
}

// until is the last moment of a life.
func until(w *client.Workload) time.Time {
	if w.End != nil && w.End.After(w.Seen) {
		return *w.End
	}
	return w.Seen
}

// lives lists the lives of an id that the viewer may see; nil when there is one.
func (s *server) lives(ctx context.Context, id string) ([]client.Life, error) {
	list, err := s.Backend.Workloads(ctx, client.Filter{ID: id, Sort: "-start", Limit: listedLives})
	if err != nil || len(list.Workloads) < 2 {
		return nil, err
	}
	out := make([]client.Life, len(list.Workloads))
	for i := range list.Workloads {
		w := &list.Workloads[i]
		out[i] = client.Life{Start: w.Start, End: w.End, Owner: w.Owner, Name: w.Name}
	}
	return out, nil
}
