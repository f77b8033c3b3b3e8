package forecast

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"reckon/figure"
	"reckon/store"
	"reckon/workload"
)

// series holds the hourly means of one figure of a subject up to the start of the forecast.
// Unmeasured hours are NaN.
type series struct {
	subject, site, owner, name, figure string
	values                             []float64
	capacity                           float64 // 0 for none
	cores                              float64 // that a node has
	limit                              float64 // of the memory of a service, bytes; 0 for none
}

func (s *series) countMeasured() int {
	n := 0
	for _, v := range s.values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// hourlyRate is an hourly figure as a mean over the hour. capacity returns its bound; nil for none.
type hourlyRate[T any] struct {
	figure       string
	of, capacity func(*T) *float64
}

func nodeRates() []hourlyRate[store.NodeUse] {
	sum := func(a, b *float64) *float64 {
		switch {
		case a == nil:
			return b
		case b == nil:
			return a
		}
		v := *a + *b
		return &v
	}
	return []hourlyRate[store.NodeUse]{
		{"cores", func(u *store.NodeUse) *float64 { return u.CoreUsedSeconds }, func(u *store.NodeUse) *float64 { return u.CoreSeconds }},
		{"memory_bytes", func(u *store.NodeUse) *float64 { return u.NodeMemoryUsedByteSeconds },
			func(u *store.NodeUse) *float64 { return u.NodeMemoryByteSeconds }},
		{"watts", func(u *store.NodeUse) *float64 { return u.NodeJoules }, nil},
		{"gpus", func(u *store.NodeUse) *float64 { return u.GPUSeconds }, nil},
		{"disk_bytes_per_second", func(u *store.NodeUse) *float64 { return sum(u.ReadBytes, u.WriteBytes) }, nil},
		{"network_bytes_per_second", func(u *store.NodeUse) *float64 { return u.NetworkBytes }, nil},
	}
}

// ownerRates returns the figures of owners: the use of their workloads.
func ownerRates() []hourlyRate[figure.Used] {
	return []hourlyRate[figure.Used]{
		{"cores", func(u *figure.Used) *float64 { return u.CPUSeconds }, nil},
		{"memory_bytes", func(u *figure.Used) *float64 { return u.MemoryByteSeconds }, nil},
		{"watts", func(u *figure.Used) *float64 { return u.EnergyJoules }, nil},
		{"gpus", func(u *figure.Used) *float64 { return u.GPUSeconds }, nil},
	}
}

// hourGrid is the hours that a forecast is based on.
type hourGrid struct {
	from, to time.Time
	n        int
}

func newGrid(end time.Time) hourGrid {
	return hourGrid{end.AddDate(0, 0, -past), end, past * 24}
}

// unmeasuredHours returns hours without measurements.
func (g hourGrid) unmeasuredHours() []float64 {
	out := make([]float64, g.n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

func (g hourGrid) hourIndex(t time.Time) (int, bool) {
	i := int(t.Sub(g.from) / time.Hour)
	return i, i >= 0 && i < g.n
}

const (
	// settled is the minimum time a node must have been up for the mean of an hour to count, seconds.
	settled = 900
	// atOnce is the number of nodes read at a time.
	atOnce = 50
	// mostOwners and mostServices limit the forecasts to those with the highest use.
	mostOwners, mostServices = 500, 200
	hour                     = 3600.0
)

// readSites reads the totals of all nodes of a site.
func (k *Keeper) readSites(ctx context.Context, end time.Time, take func([]series) error) error {
	rows, err := k.Rollups.NodeUse(ctx,
		store.RollupQuery{From: end.AddDate(0, 0, -past), To: end, Span: store.SpanHour, By: []string{"site"}})
	if err != nil {
		return fmt.Errorf("read the hours of sites: %w", err)
	}
	l, err := k.readLimits(ctx, end)
	if err != nil {
		return err
	}
	dropBorders(rows)
	list := toSeries(rows, newGrid(end), Site, func(*store.NodeUse) float64 { return hour })
	l.setCapacity(list)
	return take(list)
}

// siteHour is an hour of a site.
type siteHour struct {
	site string
	hour int64 // since 1970
}

func newSiteHour(site string, at time.Time) siteHour { return siteHour{site, at.Unix() / 3600} }

// dropBorders marks a site's hours next to a gap as interpolated if they were measured for less time than the hour on
// the other side. A partial hour is not representative.
func dropBorders(rows []store.NodeUse) {
	up := map[siteHour]*float64{} // the time that its nodes were up, seconds
	for i := range rows {
		up[newSiteHour(rows[i].Site, rows[i].At)] = rows[i].UpSeconds
	}
	for i := range rows {
		u := &rows[i]
		before, after := up[newSiteHour(u.Site, u.At.Add(-time.Hour))], up[newSiteHour(u.Site, u.At.Add(time.Hour))]
		if u.UpSeconds == nil || before != nil && after != nil {
			continue
		}
		if inside := cmp.Or(before, after); inside != nil && *u.UpSeconds < 0.95**inside {
			u.CoreUsedInterpolatedSeconds = u.CoreUsedSeconds
		}
	}
}

// readNodes reads the nodes that were up in the last day.
func (k *Keeper) readNodes(ctx context.Context, end time.Time, take func([]series) error) error {
	rows, err := k.Rollups.NodeUse(ctx,
		store.RollupQuery{From: end.AddDate(0, 0, -1), To: end, Span: store.SpanWhole, By: []string{"site", "node"}})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	names := make([]string, 0, len(rows))
	for i := range rows {
		names = append(names, rows[i].Node)
	}
	slices.Sort(names)
	for some := range slices.Chunk(slices.Compact(names), atOnce) {
		if err := k.readNamedNodes(ctx, end, some, take); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) readNamedNodes(ctx context.Context, end time.Time, names []string, take func([]series) error) error {
	rows, err := k.Rollups.NodeUse(ctx,
		store.RollupQuery{From: end.AddDate(0, 0, -past), To: end, Span: store.SpanHour, By: []string{"site", "node"}, Nodes: names})
	if err != nil {
		return fmt.Errorf("read the hours of nodes: %w", err)
	}
	l, err := k.readLimits(ctx, end)
	if err != nil {
		return err
	}
	list := toSeries(rows, newGrid(end), Node, func(u *store.NodeUse) float64 {
		if u.UpSeconds == nil || *u.UpSeconds < settled {
			return 0
		}
		return *u.UpSeconds
	})
	l.setCapacity(list)
	return take(list)
}

// maxInterpolated is the share of interpolated use above which an hour does not count as measured.
const maxInterpolated = 0.1

// isMeasured reports whether the use of an hour was measured rather than spread over a gap.
func isMeasured(interpolated, used *float64) bool {
	return interpolated == nil || used == nil || *interpolated <= maxInterpolated**used
}

// toSeries returns the series of rows of nodes. over returns the divisor of an hour, seconds, or 0 if the hour does not count.
func toSeries(rows []store.NodeUse, g hourGrid, subject string, over func(*store.NodeUse) float64) []series {
	type key struct{ site, node, figure string }
	all, order := map[key]*series{}, []key{}
	for i := range rows {
		u := &rows[i]
		at, ok := g.hourIndex(u.At)
		seconds := over(u)
		if !ok || seconds == 0 || !isMeasured(u.CoreUsedInterpolatedSeconds, u.CoreUsedSeconds) {
			continue
		}
		for _, r := range nodeRates() {
			v := r.of(u)
			if v == nil {
				continue
			}
			id := key{u.Site, u.Node, r.figure}
			s := all[id]
			if s == nil {
				s = &series{subject: subject, site: u.Site, name: u.Node, figure: r.figure, values: g.unmeasuredHours()}
				all[id], order = s, append(order, id)
			}
			if u.CoreSeconds != nil {
				s.cores = *u.CoreSeconds / seconds
			}
			s.values[at] = *v / seconds
			if r.capacity == nil {
				continue
			}
			if c := r.capacity(u); c != nil {
				// The last hour counts: machines come and go.
				s.capacity = *c / seconds
			}
		}
	}
	out := make([]series, 0, len(order))
	for _, id := range order {
		out = append(out, *all[id])
	}
	return out
}

// readOwners reads the owners with the highest use in the last week.
func (k *Keeper) readOwners(ctx context.Context, end time.Time, take func([]series) error) error {
	rows, err := k.Rollups.Use(ctx, store.RollupQuery{From: end.AddDate(0, 0, -7), To: end, Span: store.SpanWhole, By: []string{"owner"}})
	if err != nil {
		return fmt.Errorf("list the owners: %w", err)
	}
	used := func(u *store.Use) float64 { return max(*cmp.Or(u.CPUSeconds, new(-1.0)), -1) }
	slices.SortStableFunc(rows, func(a, b store.Use) int { return cmp.Compare(used(&b), used(&a)) })
	var names []string
	for _, r := range rows[:min(len(rows), mostOwners)] {
		if r.Owner != "" {
			names = append(names, r.Owner)
		}
	}
	for some := range slices.Chunk(names, atOnce) {
		if err := k.readNamedOwners(ctx, end, some, take); err != nil {
			return err
		}
	}
	return nil
}

// readNamedOwners reads the given owners. An hour with measurements of the site but without a row of an owner counts as zero use.
func (k *Keeper) readNamedOwners(ctx context.Context, end time.Time, names []string, take func([]series) error) error {
	g := newGrid(end)
	up, err := k.Rollups.NodeUse(ctx, store.RollupQuery{From: g.from, To: g.to, Span: store.SpanHour, By: []string{"site"}})
	if err != nil {
		return fmt.Errorf("read the hours of sites: %w", err)
	}
	watched := map[string][]float64{} // by site: 0 in the hours that were measured
	partly := map[siteHour]bool{}     // measured in part
	dropBorders(up)
	for i := range up {
		u := &up[i]
		if watched[u.Site] == nil {
			watched[u.Site] = g.unmeasuredHours()
		}
		at, ok := g.hourIndex(u.At)
		switch {
		case !isMeasured(u.CoreUsedInterpolatedSeconds, u.CoreUsedSeconds):
			partly[newSiteHour(u.Site, u.At)] = true
		case ok && u.UpSeconds != nil && *u.UpSeconds >= settled:
			watched[u.Site][at] = 0
		}
	}
	rows, err := k.Rollups.Use(ctx,
		store.RollupQuery{From: g.from, To: g.to, Span: store.SpanHour, By: []string{"site", "owner"}, Owners: names})
	if err != nil {
		return fmt.Errorf("read the hours of owners: %w", err)
	}
	type key struct{ site, owner, figure string }
	all, order := map[key]*series{}, []key{}
	for i := range rows {
		u := &rows[i]
		at, ok := g.hourIndex(u.At)
		if !ok {
			continue
		}
		for _, r := range ownerRates() {
			v := r.of(&u.Used)
			if v == nil {
				continue
			}
			id := key{u.Site, u.Owner, r.figure}
			s := all[id]
			if s == nil {
				s = &series{subject: Owner, site: u.Site, owner: u.Owner, name: u.Owner, figure: r.figure,
					values: slices.Clone(watched[u.Site])}
				if s.values == nil {
					s.values = g.unmeasuredHours()
				}
				all[id], order = s, append(order, id)
			}
			if s.values[at] = *v / hour; !isMeasured(u.CPUInterpolatedSeconds, u.CPUSeconds) || partly[newSiteHour(u.Site, u.At)] {
				s.values[at] = math.NaN()
			}
		}
	}
	l, err := k.readLimits(ctx, end)
	if err != nil {
		return err
	}
	out := make([]series, 0, len(order))
	for _, id := range order {
		out = append(out, *all[id])
	}
	l.setCapacity(out)
	return take(out)
}

// readServices reads the running services with the highest use since they started, at least two days ago.
func (k *Keeper) readServices(ctx context.Context, end time.Time, take func([]series) error) error {
	clear(k.past) // reread once a day, including late data
	return k.eachService(ctx, end, func(w *store.Workload) error { return k.readRecent(ctx, end, w, take) })
}

// eachService calls each for the running services with the highest use, if they started two days ago or earlier.
func (k *Keeper) eachService(ctx context.Context, end time.Time, each func(*store.Workload) error) error {
	live := true
	rows, _, err := k.Catalogue.Workloads(ctx,
		store.Filter{Kinds: workload.KindNames(workload.Services()), Running: &live, Sort: "-cpu_seconds", Limit: mostServices})
	if err != nil {
		return fmt.Errorf("list the services: %w", err)
	}
	for i := range rows {
		w := &rows[i]
		if end.Sub(w.Start) < least*time.Hour {
			continue
		}
		if err := each(w); err != nil {
			return err
		}
	}
	return nil
}

// recentHours holds the hours of a service up to a time.
type recentHours struct {
	to   time.Time
	list []series
}

// readRecent calls take with the figures of a service. It reads only hours that it has not read before.
func (k *Keeper) readRecent(ctx context.Context, end time.Time, w *store.Workload, take func([]series) error) error {
	l, err := k.readLimits(ctx, end)
	if err != nil {
		return err
	}
	of := series{subject: Workload, site: w.Site, owner: w.Owner, name: w.ID}
	for _, n := range w.Nodes {
		of.limit += l.memory[machineName{w.Site, n}]
	}
	if w.LimitMemoryBytes != nil {
		of.limit = *w.LimitMemoryBytes
	}
	id := machineName{w.Site, w.ID + "\x00" + w.Owner}
	have := k.past[id]
	hours := past * 24
	if have != nil && end.Sub(have.to) >= 0 && end.Sub(have.to) < 24*time.Hour {
		hours = int(end.Sub(have.to) / time.Hour)
	} else {
		have = &recentHours{}
	}
	err = k.readService(ctx, end, hours, of, func(list []series) error {
		if len(have.list) > 0 {
			list = joinHours(have.list, list, hours)
		}
		have.to, have.list = end, list
		return nil
	})
	if err != nil {
		return err
	}
	if k.past == nil {
		k.past = map[machineName]*recentHours{}
	}
	k.past[id] = have
	return take(have.list)
}

// joinHours shifts old series by some hours and fills these from the new series.
func joinHours(old, list []series, hours int) []series {
	if hours == 0 {
		return old
	}
	for i := range old {
		s := &old[i]
		s.values = append(s.values[hours:], newGrid(time.Time{}).unmeasuredHours()[:hours]...)
		j := slices.IndexFunc(list, func(n series) bool { return n.figure == s.figure })
		if j >= 0 {
			s.capacity = list[j].capacity
			copy(s.values[len(s.values)-hours:], list[j].values[len(list[j].values)-hours:])
		}
	}
	for i := range list {
		if !slices.ContainsFunc(old, func(o series) bool { return o.figure == list[i].figure }) {
			old = append(old, list[i])
		}
	}
	return old
}

// readService reads the figures of one workload from the series, of the last hours.
func (k *Keeper) readService(ctx context.Context, end time.Time, hours int, of series, take func([]series) error) error {
	select1 := "{workload=" + strconv.Quote(of.name)
	if of.site != "" {
		select1 += ",site=" + strconv.Quote(of.site)
	}
	select1 += "}"
	counter := func(metric string) string { return "sum(rate(" + metric + select1 + "[1h]))" }
	var out []series
	for _, f := range [][2]string{
		{"cores", counter(figure.CPU)},
		{"memory_bytes", "sum(avg_over_time(" + figure.Memory + select1 + "[1h]))"},
		{"watts", counter(figure.Energy)},
		{"gpus", counter(figure.GPU)},
		{"disk_bytes_per_second", counter(figure.IO)},
		{"network_bytes_per_second", counter(figure.Network)},
	} {
		found, err := k.queryHours(ctx, end, hours, f[1])
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", f[0], of.name, err)
		}
		for _, s := range found {
			one := of
			one.figure, one.values = f[0], s.values
			out = append(out, one)
		}
	}
	l, err := k.readLimits(ctx, end)
	if err != nil {
		return err
	}
	l.setCapacity(out)
	return take(out)
}

// readFileSystems reads the file systems of nodes that were up in the last day.
func (k *Keeper) readFileSystems(ctx context.Context, end time.Time, take func([]series) error) error {
	rows, err := k.Rollups.NodeUse(ctx,
		store.RollupQuery{From: end.AddDate(0, 0, -1), To: end, Span: store.SpanWhole, By: []string{"site", "node"}})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for i := range rows {
		if err := k.readNodeFileSystems(ctx, end, rows[i].Site, rows[i].Node, take); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) readNodeFileSystems(ctx context.Context, end time.Time, site, node string, take func([]series) error) error {
	select1 := `{node=` + strconv.Quote(node) + `,fstype!~"tmpfs|overlay|squashfs|ramfs|iso9660"`
	if site != "" {
		select1 += ",site=" + strconv.Quote(site)
	}
	found, err := k.queryHours(ctx, end, past*24, "min by (site, mountpoint) (avg_over_time(node_filesystem_avail_bytes"+select1+"}[1h]))")
	if err != nil {
		return fmt.Errorf("read the file systems of %s: %w", node, err)
	}
	for i := range found {
		found[i].subject, found[i].figure, found[i].name = FileSystem, "free_bytes", node+":"+found[i].name
	}
	return take(found)
}

// queryHours evaluates an expression at the end of each of the last hours. The name of a series is its mount point.
func (k *Keeper) queryHours(ctx context.Context, end time.Time, hours int, expr string) ([]series, error) {
	if hours == 0 {
		return nil, nil
	}
	g := newGrid(end)
	q, err := k.Engine.NewRangeQuery(ctx, k.Series, nil, expr, g.to.Add(-time.Duration(hours-1)*time.Hour), g.to, time.Hour)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	m, err := q.Exec(ctx).Matrix()
	if err != nil {
		return nil, err
	}
	out := make([]series, 0, len(m))
	for _, one := range m {
		s := series{site: one.Metric.Get("site"), name: one.Metric.Get("mountpoint"), values: g.unmeasuredHours()}
		for _, p := range one.Floats {
			if at, ok := g.hourIndex(time.UnixMilli(p.T).Add(-time.Hour)); ok && !math.IsInf(p.F, 0) {
				s.values[at] = p.F
			}
		}
		out = append(out, s)
	}
	return out, nil
}
