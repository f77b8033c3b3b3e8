package forecast

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/store"
)

// headroom is the factor by which a power forecast may exceed the highest measured power, because machines report no limit.
const headroom = 1.2

// machineName names a node, or a site if the node is empty.
type machineName struct{ site, node string }

// gpuSet is the GPUs of a machine.
type gpuSet struct {
	count  float64
	models string
}

// machineLimits are the capacities of the machines at the end of the hours of a forecast.
type machineLimits struct {
	at   time.Time
	gpus map[machineName]gpuSet
	// sites has the total cores and memory (bytes) of each site's nodes, the maximum use of its owners and services.
	sites  map[string]map[string]float64
	memory map[machineName]float64 // of nodes, bytes
}

// readLimits reads the resources of the machines, once for each end. If the series are unavailable, the number of GPUs is unknown.
func (k *Keeper) readLimits(ctx context.Context, end time.Time) (*machineLimits, error) {
	k.limitsMu.Lock()
	defer k.limitsMu.Unlock()
	if k.known != nil && k.known.at.Equal(end) {
		return k.known, nil
	}
	l := &machineLimits{at: end, gpus: map[machineName]gpuSet{}, sites: map[string]map[string]float64{}, memory: map[machineName]float64{}}
	rows, err := k.Rollups.NodeUse(ctx, store.RollupQuery{From: end.AddDate(0, 0, -1), To: end, Span: store.SpanHour, By: []string{"site"}})
	if err != nil {
		return nil, fmt.Errorf("read the hours of sites: %w", err)
	}
	for i := range rows {
		u := &rows[i]
		if l.sites[u.Site] == nil {
			l.sites[u.Site] = map[string]float64{}
		}
		for _, r := range nodeRates() {
			if r.capacity == nil {
				continue
			}
			if v := r.capacity(u); v != nil {
				l.sites[u.Site][r.figure] = max(l.sites[u.Site][r.figure], *v/hour)
			}
		}
	}
	rows, err = k.Rollups.NodeUse(ctx,
		store.RollupQuery{From: end.AddDate(0, 0, -1), To: end, Span: store.SpanWhole, By: []string{"site", "node"}})
	if err != nil {
		return nil, fmt.Errorf("read the sizes of nodes: %w", err)
	}
	for i := range rows {
		if u := &rows[i]; u.NodeMemoryByteSeconds != nil && u.UpSeconds != nil && *u.UpSeconds > 0 {
			l.memory[machineName{u.Site, u.Node}] = *u.NodeMemoryByteSeconds / *u.UpSeconds
		}
	}
	const have = `count by (site, node, model) (count by (site, node, vendor, device, model) ` +
		`(last_over_time(reckon_gpu_info{parent=""}[1d])))`
	if q, err := k.Engine.NewInstantQuery(ctx, k.Series, nil, have, end); err == nil {
		found, err := q.Exec(ctx).Vector()
		if err == nil {
			for _, s := range found {
				for _, m := range []machineName{{s.Metric.Get("site"), s.Metric.Get("node")}, {s.Metric.Get("site"), ""}} {
					g := l.gpus[m]
					g.count += s.F
					g.models = strings.TrimPrefix(g.models+", "+strconv.Itoa(int(s.F))+" "+s.Metric.Get("model"), ", ")
					l.gpus[m] = g
				}
			}
			k.known = l
		}
		q.Close()
	}
	return l, nil
}

// setCapacity sets the capacity of series that have none yet.
func (l *machineLimits) setCapacity(list []series) {
	for i := range list {
		s := &list[i]
		node := ""
		if s.subject == Node {
			node = s.name
		}
		switch {
		case s.capacity > 0:
		case s.figure == "gpus":
			s.capacity = l.gpus[machineName{s.site, node}].count
		case s.figure == "watts":
			s.capacity = headroom * largestValue(s.values)
		case s.subject == Workload && s.figure == "memory_bytes" && s.limit > 0:
			s.capacity = s.limit
		case s.subject == Owner || s.subject == Workload:
			s.capacity = l.sites[s.site][s.figure]
		}
	}
}

// largestValue returns the largest measured value; 0 without any.
func largestValue(values []float64) float64 {
	m := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			m = max(m, v)
		}
	}
	return m
}

// describeHardware describes the hardware of a node, for comparison with equal nodes.
func (l *machineLimits) describeHardware(s *series) string {
	words := []string{fmt.Sprintf("%g cores", math.Round(s.cores))}
	if g := l.gpus[machineName{s.site, s.name}]; g.count > 0 {
		models := strings.Split(g.models, ", ")
		slices.Sort(models)
		words = append(words, strings.Join(models, ", "))
	} else {
		words = append(words, "no GPU")
	}
	return strings.Join(words, " and ")
}
