package query

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/workload"
)

const (
	// numberMetric has a label with the job number of an array task or of a component of a heterogeneous job.
	numberMetric = "reckon_slurm_number_info"
	// numberDelay is the time after the end of a run within which its number may be reported.
	numberDelay = 24 * time.Hour
)

// Select returns the selection of a run. It includes the ids derived from the job number of the run. Nodes use these
// ids for array tasks that ended before the agent could read their environment.
func (v *Views) Select(ctx context.Context, site, id string, from, to time.Time) (Selection, error) {
	s := Selection{Site: site, ID: id, From: from, To: to}
	if w := workload.ID(id); !w.Kind().Array() || !strings.ContainsAny(w.Name(), "_+") {
		return s, nil
	}
	err := v.eachSeries(ctx, s, from, to.Add(numberDelay), []string{numberMetric}, func(l labels.Labels, _ chunkenc.Iterator) error {
		if alias := string(workload.JobID(l.Get("number"))); alias != id && !slices.Contains(s.Numbered, alias) {
			s.Numbered = append(s.Numbered, alias)
		}
		return nil
	})
	return s, err
}
