package api

import (
	"context"
	"slices"
	"strings"

	"reckon/web/client"
	"reckon/workload"
)

// Numbers returns the ids of jobs with a batch system number, if that number differs from the one in the id. These are
// array tasks and components of heterogeneous jobs.
type Numbers interface {
	Numbered(ctx context.Context, number string) (ids []string, err error)
}

// visibleNumbered returns the ids of jobs with a number that the viewer may see.
func (s *server) visibleNumbered(ctx context.Context, text string) ([]string, error) {
	text = workload.JobNumber(text)
	if s.Numbers == nil || strings.Trim(text, "0123456789+_") != "" || !isDigits(text[:1]) {
		return nil, nil
	}
	all, err := s.Numbers.Numbered(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, nil
	}
	list, err := s.Backend.Workloads(ctx, client.Filter{IDs: all, Sort: "-start", Limit: maxRuns})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(id string) bool {
		return !slices.ContainsFunc(list.Workloads, func(w client.Workload) bool { return w.ID == id })
	}), nil
}
