package simulation

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"reckon/metric"
	"reckon/store/tsdb"
)

// Blocks receives the collected samples of the past: [tsdb.Store] does.
type Blocks interface {
	ImportBlocks(ctx context.Context, h *tsdb.History) error
}

// History is a [Sink] that writes past samples to a store in complete blocks. That is many times faster than to append
// each export. The samples are in the store after [History.Flush].
type History struct {
	store Blocks
	site  string

	mu    sync.Mutex
	nodes map[string]*senderData
	block time.Time // beginning of the block under collection
}

// senderData is the collected data of one sender.
type senderData struct {
	external []labels.Label
	packed   tsdb.History
	rows     map[*metric.Series]*pastSeries
	byLabels map[string]*tsdb.HistorySeries
	key      []byte
}

type pastSeries struct {
	labels labels.Labels
	to     *tsdb.HistorySeries // nil until a sample of this stretch arrives
}

// maxStartAge is the maximum age of a counter at which it still gets its initial zero, as in the store's append path.
const maxStartAge = time.Hour

// NewHistory returns a sink that writes into a store, under the name of a site.
func NewHistory(store Blocks, site string) *History {
	return &History{store: store, site: site, nodes: map[string]*senderData{}}
}

// Put implements [Sink].
func (h *History) Put(_ context.Context, node string, b *metric.Batch) error {
	h.mu.Lock()
	p := h.nodes[node]
	if p == nil {
		p = &senderData{rows: map[*metric.Series]*pastSeries{}, byLabels: map[string]*tsdb.HistorySeries{}}
		for _, l := range []labels.Label{{Name: "node", Value: node}, {Name: "site", Value: h.site}} {
			if l.Value != "" {
				p.external = append(p.external, l)
			}
		}
		h.nodes[node] = p
	}
	h.mu.Unlock()
	return p.addBatch(b)
}

func (p *senderData) addBatch(b *metric.Batch) error {
	t := b.Time.UnixMilli()
	for i := range b.Samples {
		s := &b.Samples[i]
		r := p.rows[s.Series]
		fresh := r == nil
		if fresh {
			r = &pastSeries{labels: p.mergeLabels(s.Series)}
			p.rows[s.Series] = r
		}
		if r.to == nil {
			p.key = r.labels.Bytes(p.key[:0])
			if r.to = p.byLabels[string(p.key)]; r.to == nil {
				r.to = p.packed.Series(r.labels)
				p.byLabels[string(p.key)] = r.to
			}
		}
		if err := r.addSample(s, t, fresh); err != nil {
			return fmt.Errorf("pack %s: %w", s.Series.Desc.Name, err)
		}
		if s.Last {
			delete(p.rows, s.Series)
		}
	}
	return nil
}

func (r *pastSeries) addSample(s *metric.Sample, t int64, fresh bool) error {
	if s.Series.Desc.Kind == metric.NativeHistogram {
		err := r.to.AddHistogram(t, s.Histogram)
		if err == nil && s.Last {
			err = r.to.AddHistogram(t+1, &metric.Histogram{Sum: math.Float64frombits(value.StaleNaN)})
		}
		return err
	}
	if c := s.Series.Created; fresh && c != 0 && s.Series.Desc.Kind == metric.Counter && c < t && t-c <= maxStartAge.Milliseconds() {
		// Not in the block before, which is already written.
		if zero := max(c, blockStart(time.UnixMilli(t)).UnixMilli()); zero < t {
			if err := r.to.Add(zero, 0); err != nil {
				return err
			}
		}
	}
	err := r.to.Add(t, s.Value)
	if err == nil && s.Last {
		err = r.to.Add(t+1, math.Float64frombits(value.StaleNaN))
	}
	return err
}

// mergeLabels merges the name, the labels of the series and of the sender.
func (p *senderData) mergeLabels(s *metric.Series) labels.Labels {
	list := append([]labels.Label{{Name: model.MetricNameLabel, Value: s.Desc.Name}}, p.external...)
	for i, name := range s.Desc.Labels {
		if s.Values[i] == "" {
			continue
		}
		own := true
		for k := range list {
			if list[k].Name == name {
				list[k].Value, own = s.Values[i], false
			}
		}
		if own {
			list = append(list, labels.Label{Name: name, Value: s.Values[i]})
		}
	}
	return labels.New(list...)
}

// blockStart returns the beginning of the block that contains a time.
func blockStart(t time.Time) time.Time {
	return time.UnixMilli(t.UnixMilli() - t.UnixMilli()%tsdb.HistoryRange.Milliseconds())
}

// Before implements [Preparer]: when the time of a block is over, it is written.
func (h *History) Before(ctx context.Context, at time.Time) error {
	was := h.block
	if h.block = blockStart(at); was.IsZero() || was.Equal(h.block) {
		return nil
	}
	return h.Flush(ctx)
}

// Flush writes the collected samples.
func (h *History) Flush(ctx context.Context) error {
	var all tsdb.History
	for _, p := range h.nodes {
		all.Join(&p.packed)
		clear(p.byLabels)
		for _, r := range p.rows {
			r.to = nil
		}
	}
	return h.store.ImportBlocks(ctx, &all)
}
