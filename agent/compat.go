package agent

import (
	"slices"

	"reckon/metric"
)

// compatJob is the label job of stored views. It keeps sums over jobs from mixing them with the
// series of a real exporter.
const compatJob = "reckon-compat"

// storedViews adds the labels job and instance, which a scrape would add, to the series of views in
// a store without scraping.
type storedViews struct {
	instance string
	descs    map[*metric.Desc]*metric.Desc
	series   map[*metric.Series]*metric.Series
	before   map[*metric.Series]*metric.Series // of the last generation
}

// mark changes the series of samples from n on.
func (v *storedViews) mark(b *metric.Batch, n int) {
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
				own = v.labelled(s)
			}
			v.series[s] = own
		}
		b.Samples[i].Series = own
	}
}

// labelled returns s with the two labels, unless the view has its own.
func (v *storedViews) labelled(s *metric.Series) *metric.Series {
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
