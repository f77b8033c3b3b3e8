package run

import (
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
)

// profile divides the run into windows of one second.
type profile struct {
	rows      []Row
	cores     []weightedValue // one for each window, never merged
	start     float64
	prev      treeTotals
	prevWait  uint64
	shareCost float64

	area, peak, lastAt, lastMem float64
	any                         bool
}

// weightedValue is a value and its duration.
type weightedValue struct{ v, w float32 }

// maxRows limits the windows that are kept for a plot. If there are more, adjacent windows are merged.
const maxRows = 7200

func (p *profile) addMemory(at, bytes float64) {
	if p.any {
		p.area += (at - p.lastAt) * (bytes + p.lastMem) / 2
	}
	p.any, p.lastAt, p.lastMem = true, at, bytes
	p.peak = max(p.peak, bytes)
}

// closeWindow ends a window at the given time.
func (p *profile) closeWindow(at float64, t treeTotals, wait uint64, l treeLevel) Row {
	d := at - p.start
	rate := func(now, before uint64) float64 {
		if now <= before || d <= 0 {
			return 0
		}
		return float64(now-before) / d
	}
	r := Row{
		Start: p.start, Seconds: d,
		Cores: rate(t.cpu, p.prev.cpu) / 1e9,
		Wait:  rate(wait, p.prevWait) / 1e9,
		Read:  rate(t.read, p.prev.read), Write: rate(t.write, p.prev.write),
		Anon: float64(l.anon), File: float64(l.shared),
		Processes: float64(l.procs), Threads: float64(l.threads),
		Memory: math.NaN(), MemoryPeak: math.NaN(), User: math.NaN(), System: math.NaN(),
	}
	user, system := rate(t.user, p.prev.user), rate(t.system, p.prev.system)
	if user+system > 0 {
		r.User = r.Cores * user / (user + system)
		r.System = r.Cores * system / (user + system)
	} else if r.Cores == 0 {
		r.User, r.System = 0, 0
	}
	if p.any {
		if r.Memory = p.lastMem; p.lastAt > p.start && p.area > 0 {
			r.Memory = p.area / (p.lastAt - p.start)
		}
		r.MemoryPeak = p.peak
	} else {
		r.Anon, r.File, r.Processes, r.Threads = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	}
	p.cores = append(p.cores, weightedValue{float32(r.Cores), float32(d)})
	p.rows = append(p.rows, r)
	if len(p.rows) > maxRows {
		p.rows = mergePairs(p.rows)
	}
	p.start, p.prev, p.prevWait = at, t, wait
	p.area, p.peak, p.lastAt = 0, p.lastMem, at
	return r
}

// mergePairs halves the number of windows.
func mergePairs(rows []Row) []Row {
	out := rows[:0]
	for i := 0; i+1 < len(rows); i += 2 {
		a, b := rows[i], rows[i+1]
		d := a.Seconds + b.Seconds
		mean := func(x, y float64) float64 { return (x*a.Seconds + y*b.Seconds) / d }
		out = append(out, Row{
			Start: a.Start, Seconds: d,
			Cores: mean(a.Cores, b.Cores), User: mean(a.User, b.User), System: mean(a.System, b.System), Wait: mean(a.Wait, b.Wait),
			Memory: mean(a.Memory, b.Memory), MemoryPeak: max(a.MemoryPeak, b.MemoryPeak), Anon: b.Anon, File: b.File,
			Read: mean(a.Read, b.Read), Write: mean(a.Write, b.Write), Processes: b.Processes, Threads: b.Threads,
		})
	}
	if len(rows)%2 == 1 {
		out = append(out, rows[len(rows)-1])
	}
	return out
}

// coresDistribution returns the distribution of cores over windows, weighted by their length. It merges a last window shorter
// than half a second with the previous one, because its noise could become the maximum.
func coresDistribution(windows []weightedValue, mean float64) Cores {
	c := Cores{Mean: mean, P50: mean, P95: mean, Max: mean}
	if len(windows) < 2 { // shorter than a second: there is one window, the run
		return c
	}
	list := slices.Clone(windows)
	if n := len(list) - 1; list[n].w < 0.5 {
		a, b := list[n-1], list[n]
		if w := a.w + b.w; w > 0 {
			list[n-1] = weightedValue{(a.v*a.w + b.v*b.w) / w, w}
		}
		list = list[:n]
	}
	slices.SortFunc(list, func(a, b weightedValue) int {
		if a.v < b.v {
			return -1
		} else if a.v > b.v {
			return 1
		}
		return 0
	})
	var total float64
	for _, x := range list {
		total += float64(x.w)
	}
	at := func(q float64) float64 {
		sum := 0.0
		for _, x := range list {
			if sum += float64(x.w); sum >= q*total {
				return float64(x.v)
			}
		}
		return float64(list[len(list)-1].v)
	}
	c.P50, c.P95, c.Max = at(0.5), at(0.95), float64(list[len(list)-1].v)
	return c
}

// CSV writes rows as they arrive, with a header line before the first. A gap is empty.
type CSV struct {
	w     *csv.Writer
	cells []string
}

// NewCSV writes the header to w.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{w: csv.NewWriter(w)}
	return c, c.write([]string{"time_seconds", "window_seconds", "cores", "cores_user", "cores_system", "cores_waited_for",
		"memory_bytes", "memory_peak_bytes", "memory_anon_bytes", "memory_file_bytes",
		"read_bytes_per_second", "write_bytes_per_second", "processes", "threads"})
}

// Write appends a row and flushes it, so that the file is complete if the run is killed. time_seconds is the time from
// the start of the command to the end of the window.
func (c *CSV) Write(r Row) error {
	c.cells = c.cells[:0]
	for _, v := range [...]struct {
		v    float64
		prec int
	}{
		{r.Start + r.Seconds, 3}, {r.Seconds, 3}, {r.Cores, 4}, {r.User, 4}, {r.System, 4}, {r.Wait, 4},
		{r.Memory, 0}, {r.MemoryPeak, 0}, {r.Anon, 0}, {r.File, 0}, {r.Read, 0}, {r.Write, 0}, {r.Processes, 0}, {r.Threads, 0},
	} {
		cell := ""
		if !math.IsNaN(v.v) && !math.IsInf(v.v, 0) {
			cell = strconv.FormatFloat(v.v, 'f', v.prec, 64)
		}
		c.cells = append(c.cells, cell)
	}
	return c.write(c.cells)
}

func (c *CSV) write(cells []string) error {
	if err := c.w.Write(cells); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}
