package powerfit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"reckon/account/attribution/powermodel"
)

// table is a clean data set: rows in time order within each group, without gaps. Columns and rows
// are shared between subsets and must not be modified.
type table struct {
	feats   []powermodel.Feature
	x       [][]float64 // x[feature][row]
	y       []float64
	group   []int // the fold of each row
	names   []string
	primary int
	// base is the number of features before the lagged ones.
	base     int
	step     float64
	protocol string
}

// subset returns the subset of t with the rows for which keep is true.
func (t *table) subset(keep func(i int) bool) *table {
	s := *t
	idx := make([]int, 0, len(t.y))
	for i := range t.y {
		if keep(i) {
			idx = append(idx, i)
		}
	}
	take := func(v []float64) []float64 {
		out := make([]float64, len(idx))
		for k, i := range idx {
			out[k] = v[i]
		}
		return out
	}
	s.x = make([][]float64, len(t.x))
	for f := range t.x {
		s.x[f] = take(t.x[f])
	}
	s.y = take(t.y)
	s.group = make([]int, len(idx))
	for k, i := range idx {
		s.group[k] = t.group[i]
	}
	s.feats = slices.Clone(t.feats)
	for f := range s.feats {
		if len(idx) > 0 {
			s.feats[f].Min, s.feats[f].Max = slices.Min(s.x[f]), slices.Max(s.x[f])
		}
	}
	return &s
}

// trainingPart returns the rows of t without the rows of group g. If the groups are blocks of time, it also drops rows
// with lags that reach into the block.
func (t *table) trainingPart(g int) *table {
	reach := 0
	if t.protocol == ByBlock {
		for _, f := range t.feats {
			reach = max(reach, f.Lag)
		}
	}
	return t.subset(func(i int) bool {
		for k := max(0, i-reach); k <= i; k++ {
			if t.group[k] == g {
				return false
			}
		}
		return true
	})
}

// rowWeights returns row weights that give every group the same total. If relative is set, errors are relative to the
// measured power, so that the sum of squares corresponds to the MAPE.
func (t *table) rowWeights(relative bool) []float64 {
	count := make([]float64, len(t.names))
	groups := 0.0
	for _, g := range t.group {
		if count[g] == 0 {
			groups++
		}
		count[g]++
	}
	w := make([]float64, len(t.y))
	for i, g := range t.group {
		w[i] = 1 / (count[g] * groups)
		if relative {
			w[i] /= t.y[i] * t.y[i]
		}
	}
	return w
}

// copyRow copies row i into x.
func (t *table) copyRow(i int, x []float64) {
	for f := range t.x {
		x[f] = t.x[f][i]
	}
}

// minRows is the minimum number of calibration points.
const minRows = 3

// fewRows is the maximum number of rows without workloads that count as calibration points.
const fewRows = 40

// prepareTable validates d, removes bad rows, sorts the rest, divides it into folds and adds lags. The warnings name the
// dropped data and the reason.
func prepareTable(d Data, o *Options) (*table, []string, error) {
	n := len(d.Watts)
	if err := checkShape(d); err != nil {
		return nil, nil, err
	}
	if o.Prior == nil {
		p, err := DefaultPrior()
		if err != nil {
			return nil, nil, err
		}
		o.Prior = p
	}
	var warn []string
	rows, w := cleanRows(d)
	warn = append(warn, w...)
	if len(rows) < minRows {
		return nil, nil, fmt.Errorf("%d of %d rows are usable, at least %d are needed%s: %w",
			len(rows), n, minRows, warningText(warn), ErrData)
	}
	t := &table{}
	pickFloat := func(v []float64) []float64 {
		out := make([]float64, len(rows))
		for k, i := range rows {
			out[k] = v[i]
		}
		return out
	}
	for _, c := range d.Features {
		v := pickFloat(c.Values)
		lo, hi := slices.Min(v), slices.Max(v)
		if hi-lo <= 1e-12*max(math.Abs(hi), math.Abs(lo)) {
			warn = append(warn, fmt.Sprintf("feature %s is constant (%g) and left out", c.Name, lo))
			continue
		}
		t.feats = append(t.feats, powermodel.Feature{Name: c.Name, Unit: c.Unit, Source: c.Source, Min: lo, Max: hi})
		t.x = append(t.x, v)
	}
	t.y, t.base = pickFloat(d.Watts), len(t.feats)
	if len(t.feats) == 0 {
		warn = append(warn, "no feature varies: only the mean can be fitted")
	}
	var runs []string
	if d.Workload != nil {
		for _, i := range rows {
			runs = append(runs, d.Workload[i])
		}
	}
	var when []float64
	if d.Time != nil {
		when = pickFloat(d.Time)
	}
	warn = append(warn, t.assignFolds(runs, when, o)...)
	t.primary = t.findPrimary(o.Primary)
	t.addLags(runs, when, o)
	return t, warn, nil
}

func warningText(warn []string) string {
	if len(warn) == 0 {
		return ""
	}
	return " (" + strings.Join(warn, "; ") + ")"
}

// checkShape checks that all columns have one entry per row and unique names.
func checkShape(d Data) error {
	n := len(d.Watts)
	seen := make(map[string]bool)
	for _, c := range d.Features {
		if len(c.Values) != n {
			return fmt.Errorf("feature %s has %d rows, power has %d: %w", c.Name, len(c.Values), n, ErrData)
		}
		if seen[c.Name] {
			return fmt.Errorf("feature %s occurs twice: %w", c.Name, ErrData)
		}
		seen[c.Name] = true
	}
	if d.Time != nil && len(d.Time) != n {
		return fmt.Errorf("time has %d rows, power has %d: %w", len(d.Time), n, ErrData)
	}
	if d.Workload != nil && len(d.Workload) != n {
		return fmt.Errorf("workload has %d rows, power has %d: %w", len(d.Workload), n, ErrData)
	}
	return nil
}

// cleanRows returns the indices of usable rows, in order of workload and time.
func cleanRows(d Data) (rows []int, warn []string) {
	var gaps, zero, clock int
	for i, y := range d.Watts {
		bad := math.IsNaN(y) || math.IsInf(y, 0)
		for _, c := range d.Features {
			bad = bad || math.IsNaN(c.Values[i]) || math.IsInf(c.Values[i], 0)
		}
		switch {
		case bad:
			gaps++
		case y <= 0:
			zero++
		case d.Time != nil && (math.IsNaN(d.Time[i]) || math.IsInf(d.Time[i], 0)):
			clock++
		default:
			rows = append(rows, i)
		}
	}
	add := func(n int, what string) { warn = append(warn, leftOutWarning(n, what)...) }
	add(gaps, "a gap")
	add(zero, "a power of zero or less, which no running machine draws,")
	add(clock, "no time")
	rows, odd := dropOutliers(rows, d.Watts)
	add(odd, "a power five times beyond all others, as blanks of meters have,")
	if d.Time == nil {
		return rows, warn
	}
	name := func(i int) string {
		if d.Workload == nil {
			return ""
		}
		return d.Workload[i]
	}
	before := func(a, b int) int {
		if c := strings.Compare(name(a), name(b)); c != 0 {
			return c
		}
		return cmpFloat(d.Time[a], d.Time[b])
	}
	back, same := 0, 0
	for k := 1; k < len(rows); k++ {
		if name(rows[k]) == name(rows[k-1]) && d.Time[rows[k]] < d.Time[rows[k-1]] {
			back++
		}
	}
	// A few steps back in time are the starts of further runs; many mean that rows are out of order.
	if back > 0 && (d.Workload == nil || back*20 > len(rows)) {
		warn = append(warn, "rows are not in order of time and were sorted")
		slices.SortStableFunc(rows, before)
	} else {
		if back > 0 {
			warn = append(warn, fmt.Sprintf("time steps back %d times within a workload: taken as further runs of it", back))
		}
		slices.SortStableFunc(rows, func(a, b int) int { return strings.Compare(name(a), name(b)) })
	}
	seen := make(map[string]int, len(rows))
	kept := rows[:0]
	for _, i := range rows {
		key := fmt.Sprintf("%s\x00%v", name(i), d.Time[i])
		if j, ok := seen[key]; ok && equalRows(d, i, j) {
			same++
			continue
		}
		seen[key] = i
		kept = append(kept, i)
	}
	add(same, "repeat another row, time and all,")
	return kept, warn
}

// An outlier has outlierFactor times the power of all other rows, and at most one in outlierShare rows may be one. Load
// raises power in more rows and by less. An example is 65535 W, which a management controller reports for "unknown".
const (
	outlierFactor = 5
	outlierShare  = 50
	outlierRows   = 10 // fewer rows are points chosen by hand
)

// dropOutliers returns the rows without outliers, and the number of outliers.
func dropOutliers(rows []int, watts []float64) (kept []int, dropped int) {
	if len(rows) < outlierRows {
		return rows, 0
	}
	order := slices.Clone(rows)
	slices.SortFunc(order, func(a, b int) int { return cmpFloat(watts[b], watts[a]) })
	for k := max(1, len(order)/outlierShare); k > 0; k-- {
		most := watts[order[k]]
		if watts[order[k-1]] > outlierFactor*most {
			return slices.DeleteFunc(rows, func(i int) bool { return watts[i] > most }), k
		}
	}
	return rows, 0
}

func equalRows(d Data, i, j int) bool {
	for _, c := range d.Features {
		if c.Values[i] != c.Values[j] {
			return false
		}
	}
	return d.Watts[i] == d.Watts[j]
}

// assignFolds chooses the protocol and assigns each row to a fold.
func (t *table) assignFolds(runs []string, when []float64, o *Options) (warn []string) {
	t.group = make([]int, len(t.y))
	index := make(map[string]int)
	for _, r := range runs {
		if _, ok := index[r]; !ok {
			index[r] = len(index)
			t.names = append(t.names, r)
		}
	}
	if len(index) >= 3 {
		t.protocol = ByWorkload
		for i, r := range runs {
			t.group[i] = index[r]
		}
		return nil
	}
	if runs != nil {
		warn = append(
			warn, fmt.Sprintf("%d workload(s) only: the errors do not carry over to other kinds of work; record at least 3, better 8",
				len(index)))
	}
	t.names = nil
	if len(t.y) <= fewRows {
		t.protocol = ByLevel
		for i := range t.y {
			t.group[i] = i
			t.names = append(t.names, fmt.Sprintf("point %d", i+1))
		}
		return warn
	}
	t.protocol = ByBlock
	if when == nil {
		warn = append(warn, "no times: rows are taken to be in order of time")
	} else if runs != nil {
		t.sortByTime(when, runs)
	}
	blocks := o.Blocks
	if blocks < 2 {
		blocks = 5
	}
	for i := range t.y {
		t.group[i] = i * blocks / len(t.y)
	}
	for b := range blocks {
		t.names = append(t.names, fmt.Sprintf("block %d of %d", b+1, blocks))
	}
	return warn
}

// sortByTime merges the rows of several workloads into one order of time.
func (t *table) sortByTime(when []float64, runs []string) {
	order := make([]int, len(when))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmpFloat(when[a], when[b]) })
	reorder(order, t.y)
	reorder(order, when)
	reorder(order, runs)
	for f := range t.x {
		reorder(order, t.x[f])
	}
}

func reorder[T any](order []int, v []T) {
	old := slices.Clone(v)
	for k, i := range order {
		v[k] = old[i]
	}
}

// leftOutWarning returns the warning that n rows are left out; none for 0.
func leftOutWarning(n int, what string) []string {
	switch n {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("1 row has %s and is left out", what)}
	}
	return []string{fmt.Sprintf("%d rows have %s and are left out", n, what)}
}
