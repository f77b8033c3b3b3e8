package remote

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	promremote "github.com/prometheus/prometheus/storage/remote"

	"reckon/internal/series"
)

// read returns the series that match, sorted.
func (s *Store) read(ctx context.Context, mint, maxt int64, ms []*labels.Matcher) (storage.SeriesSet, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	defer s.uses.Done()
	wholes, only := s.classicNames(ms)
	var plain storage.SeriesSet = storage.EmptySeriesSet()
	var err error
	if !only {
		if plain, err = s.peer.read(ctx, mint, maxt, ms); err != nil {
			return nil, err
		}
	}
	if len(wholes) == 0 {
		return plain, nil
	}
	rest := slices.DeleteFunc(slices.Clone(ms), func(m *labels.Matcher) bool { return m.Name == model.MetricNameLabel })
	set, err := s.peer.read(ctx, mint, maxt, append(rest, series.OneOf(model.MetricNameLabel, addClassicNames(wholes))))
	if err != nil {
		return nil, err
	}
	res, err := s.mergeClassicParts(set)
	if err != nil {
		return nil, err
	}
	histograms := promremote.FromQueryResult(true, res)
	if only {
		return histograms, nil
	}
	return storage.NewMergeSeriesSet([]storage.SeriesSet{plain, histograms}, 0, storage.ChainedSeriesMerge), nil
}

// classicNames returns the names of selected histograms that the server stores as classic histograms. only reports whether
// the matchers select nothing else.
func (s *Store) classicNames(ms []*labels.Matcher) (names []string, only bool) {
	asked := false
	for name := range s.whole {
		fits := true
		for _, m := range ms {
			if m.Name == model.MetricNameLabel {
				asked = true
				fits = fits && m.Matches(name)
			}
		}
		if fits && asked {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, false
	}
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return names, true
		}
	}
	return names, false
}

func addClassicNames(names []string) (out []string) {
	for _, n := range names {
		for _, p := range classicSuffixes {
			out = append(out, n+p)
		}
	}
	return out
}

// formatSelector formats matchers as PromQL. At least one of them must not match the empty string.
func formatSelector(ms []*labels.Matcher) string {
	var b strings.Builder
	b.WriteByte('{')
	filled := false
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		filled = filled || !m.Matches("")
		b.WriteString(m.Name + m.Type.String() + strconv.Quote(m.Value))
	}
	if !filled {
		if len(ms) > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`__name__=~".+"`)
	}
	b.WriteByte('}')
	return b.String()
}

// Flush makes written samples visible to queries. Only VictoriaMetrics needs it, because it otherwise delays new
// samples by up to ten seconds.
func (s *Store) Flush(ctx context.Context) error {
	if s.conf.kind != kindVictoria {
		return nil
	}
	in, _, err := s.web.sendRequest(ctx, http.MethodGet, strings.TrimSuffix(s.conf.api, "/api/v1")+"/internal/force_flush", nil, nil)
	if err != nil {
		return err
	}
	return in.Close()
}
