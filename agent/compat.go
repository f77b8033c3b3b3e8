package agent

import (
	"slices"

	"reckon/metric"
)

// compatJob is the value of the label job in stored compatibility views. With it, sums over a job do not include series
// of both these views and a real exporter.
const compatJob = "reckon-compat"

// storedViews adds the labels job and instance to the series of compatibility views that the agent stores itself. A
// Prometheus server would add them at a scrape.
type storedViews struct {
	instance string
	descs    map[*metric.Desc]*metric.Desc
	series   map[*metric.Series]*metric.Series
	before   map[*metric.Series]*metric.Series // of the last generation
}

// addLabels replaces the series of the samples from index n on by series with the labels job and instance.
func (v *storedViews) addLabels(b *metric.Batch, n int) {
	if v.descs == nil {
		v.descs = make(map[*metric.Desc]*metric.Desc)
	}
	if count := len(b.Samples) - n; v.series == nil || len(v.series) > 2*count+64 {
		v.before, v.series = v.series, make(map[*metric.Series]*metric.Series, count) // ended series are forgotten
	}
	for i := n; i < len(b.Samples); i++ {
		s := b.Samples[i].Series
		own := v.series[s]
		if own == nil {
			if own = v.before[s]; own == nil {
				own = v.withLabels(s)
			}
			v.series[s] = own
		}
		b.Samples[i].Series = own
	}
}

// withLabels returns s with the labels job and instance, unless the view sets them itself.
func (v *storedViews) withLabels(s *metric.Series) *metric.Series {
	d := v.descs[s.Desc]
	if d == nil {
		own := *s.Desc
		own.Labels = slices.Clone(own.Labels)
		for _, l := range []string{"job", "instance"} {
			if !slices.Contains(own.Labels, l) {
				own.Labels = append(own.Labels, l)
			}
		}
		d = &own
		v.descs[s.Desc] = d
	}
	values := slices.Clone(s.Values)
	for _, l := range d.Labels[len(s.Values):] {
		values = append(values, map[string]string{"job": compatJob, "instance": v.instance}[l])
	}
	out := metric.NewSeries(d, values...)
	out.Created = s.Created
	return out
}
