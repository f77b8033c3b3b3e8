package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

// page collects lines of text for a screen.
type page struct {
	term.Screen
	b strings.Builder
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// printWrapped prints a line, wrapped on a narrow screen.
func (p *page) printWrapped(indent int, format string, args ...any) {
	p.b.WriteString(p.Fold(fmt.Sprintf(format, args...), indent) + "\n")
}

// addFact prints a name with its known figures, or nothing if none is known.
func (p *page) addFact(name string, figures ...string) {
	var known []string
	for _, f := range figures {
		if f != "" && !strings.HasSuffix(f, " "+term.Unknown) && f != term.Unknown {
			known = append(known, f)
		}
	}
	if len(known) > 0 {
		p.printWrapped(12, "%-11s %s", name, strings.Join(known, "   "))
	}
}

func printJob(s term.Screen, detail client.WorkloadDetail, by string, now time.Time) error {
	p := &page{Screen: s}
	p.printHeader(detail.Workload, now)
	p.noteOtherRuns(detail, now)
	p.printTotals(detail)
	p.printVerdicts(detail.Verdicts)
	p.printEvents(detail, now)
	p.printRequests(detail.Workload)
	if by != "" {
		p.printSplits(detail.Profile, by)
	} else {
		p.printProfiles(detail)
	}
	if err := p.printCommands(detail); err != nil {
		return err
	}
	if err := p.printBalance(detail); err != nil {
		return err
	}
	if err := p.printStepTable(detail); err != nil {
		return err
	}
	if err := p.printParts(detail); err != nil {
		return err
	}
	p.printNextRun(&detail)
	_, err := fmt.Fprint(s, p.b.String())
	return err
}

func (p *page) printHeader(w client.Workload, now time.Time) {
	title := term.Safe(w.ID)
	if name := shortName(w); name != "" {
		title += "  " + term.Safe(name)
	}
	p.printWrapped(2, "%s  %s", p.Paint(term.Bold, title), formatState(w))
	word := func(name, value string) string {
		if value == "" {
			return ""
		}
		return name + " " + term.Safe(value)
	}
	p.addFact("Owner", term.Safe(w.Owner), word("account", w.Account), word("partition", w.Partition), word("qos", w.QOS),
		word("command", w.Command))
	if w.Partial {
		p.addFact("Share", "totals are of "+term.Safe(strings.Join(w.Users, ", "))+" alone, peaks of the whole process group")
	} else {
		p.addFact("Users", term.Safe(strings.Join(w.Users, ", ")))
	}
	p.addFact("Part of", wholeJobID(w.ID))
	p.addFact("Nodes", term.Safe(strings.Join(w.Nodes, ", ")), word("site", w.Site))
	p.printTimes(w, now)
}

func (p *page) printTotals(d client.WorkloadDetail) {
	w := d.Workload
	if w.CPUSeconds == nil && (isPending(w) || isStartedArray(w) || neverStarted(w)) {
		return
	}
	p.printf("")
	m := marked{}
	is := func(key, text string) string { return m.figure(w.Exactness, key, text) }
	is("wall_seconds", "") // which the page has before: its mark is explained below
	p.addFact("CPU time", is("cpu_seconds", term.Seconds(w.CPUSeconds)), "user "+is("cpu_user_seconds", term.Seconds(w.CPUUserSeconds)),
		"system "+is("cpu_system_seconds", term.Seconds(w.CPUSystemSeconds)),
		"waited "+is("cpu_wait_seconds", term.Seconds(w.CPUWaitSeconds)))
	p.addFact("Cores", "mean "+is("cores_mean", term.Cores(w.CoresMean)), "p50 "+is("cores_p50", term.Cores(w.CoresP50)),
		"p95 "+is("cores_p95", term.Cores(w.CoresP95)), "max "+is("cores_max", term.Cores(w.CoresMax)))
	last, needed := "", ""
	if w.End == nil {
		last = "last " + is("memory_bytes", term.Bytes(w.MemoryBytes))
	}
	if w.MemoryNeededPeakBytes != nil {
		needed = "needed " + is("memory_needed_peak_bytes", formatNeeded(w))
	}
	numa := ""
	if most := figure.Ratio(w.MemoryNUMAMostBytes, w.MemoryNUMABytes); most != nil {
		numa = "on one NUMA node " + term.Percent(most)
	}
	p.addFact("Memory", needed, "peak "+is("memory_peak_bytes", term.Bytes(w.MemoryPeakBytes)),
		"mean "+is("memory_mean_bytes", term.Bytes(w.MemoryMeanBytes)), last, numa)
	p.addFact("Storage", "read "+is("io_read_bytes", term.Bytes(w.ReadBytes)), "written "+is("io_write_bytes", term.Bytes(w.WriteBytes)),
		"waited "+is("io_wait_seconds", term.Seconds(w.IOWaitSeconds))+formatDisks(d.DiskWaits, w.IOWaitSeconds))
	p.addFact("Network", append(m.formatNetwork(w), m.formatInterconnect(w))...)
	p.addFact("Processor", m.formatProcessor(w)...)
	p.addFact("GPU", is("gpu_seconds", term.Seconds(w.GPUSeconds)), "peak memory "+is("gpu_memory_peak_bytes", term.Bytes(w.GPUMemoryPeak)))
	p.addFact("GPU parts", enginesText(d.GPUEngines)...)
	p.addFact("Energy", energyText(d)...)
	threads := ""
	if w.End == nil {
		threads = "threads " + term.Number(w.Threads)
	}
	p.addFact("Processes", "started "+is("processes", term.Number(w.Processes)), threads)
	p.addFact("Events", formatEvents(w)...)
	p.addFact("Marks", m.legend())
}

// formatNetwork formats the traffic through sockets; loopback and connections only if there were any.
func (m marked) formatNetwork(w client.Workload) []string {
	facts := []string{m.figure(w.Exactness, "network_bytes", term.Bytes(w.NetworkBytes))}
	if w.NetworkBytes == nil {
		return facts
	}
	is := func(key string, v *float64) string { return m.figure(w.Exactness, key, term.Bytes(v)) }
	facts = append(facts, "received "+is("network_receive_bytes", w.NetworkReceiveBytes),
		"sent "+is("network_transmit_bytes", w.NetworkTransmitBytes))
	if n := w.NetworkConnections; n != nil && *n > 0 {
		facts = append(facts, "connections "+term.Number(n))
	}
	if n := w.LoopbackBytes; n != nil && *n > 0 {
		facts = append(facts, "loopback "+term.Bytes(n))
	}
	return facts
}

// formatInterconnect formats the traffic of adapters that bypass sockets.
func (m marked) formatInterconnect(w client.Workload) string {
	if w.InterconnectBytes == nil {
		return ""
	}
	return "interconnect " + m.figure(w.Exactness, "interconnect_bytes", term.Bytes(w.InterconnectBytes))
}

// formatProcessor formats the processor counters and cache monitoring.
func (m marked) formatProcessor(w client.Workload) (facts []string) {
	if ipc := figure.Ratio(w.Instructions, w.Cycles); ipc != nil {
		facts = append(facts, m.figure(w.Exactness, "instructions", term.Number(ipc))+" instructions in a cycle")
	}
	if moved := w.MemoryTrafficBytes; moved != nil {
		text := "memory traffic " + m.figure(w.Exactness, "memory_traffic_bytes", term.Bytes(moved))
		if w.WallSeconds > 0 {
			text += " (" + m.figure(w.Exactness, "memory_traffic_bytes", term.Rate(new(*moved/w.WallSeconds))) + ")"
		}
		facts = append(facts, text)
	}
	if w.CacheBytes != nil && w.End == nil {
		facts = append(facts, "cache "+term.Bytes(w.CacheBytes))
	}
	return facts
}

// formatNeeded formats the memory that a run needed, with both bounds if they differ.
func formatNeeded(w client.Workload) string {
	if !neededDiffers(&w) {
		return term.Bytes(w.MemoryNeededPeakBytes)
	}
	return term.Bytes(w.MemoryNeededPeakBytes) + " to " + term.Bytes(w.NeededMost())
}

// neededDiffers reports whether the bounds of the memory that a run needed differ.
func neededDiffers(w *client.Workload) bool {
	most := w.NeededMost()
	return w.MemoryNeededPeakBytes != nil && most != nil && *most > *w.MemoryNeededPeakBytes*(1+figure.Apart)
}

// formatMemoryCell formats the needed memory of a run for a table. If the bounds differ, it shows the lower bound as
// a minimum. If only the peak was measured, it shows the peak as a maximum.
func (m marked) formatMemoryCell(w *client.Workload) string {
	switch {
	case w.MemoryNeededPeakBytes == nil && w.Exactness["memory_peak_bytes"] == figure.Estimated: // by samples of accounting
		return m.figure(w.Exactness, "memory_peak_bytes", term.Bytes(w.MemoryPeakBytes))
	case w.MemoryNeededPeakBytes == nil:
		return m.degree(w.Exactness["memory_peak_bytes"].Worse(figure.AtMost), term.Bytes(w.MemoryPeakBytes))
	case neededDiffers(w):
		return m.degree(w.Exactness["memory_needed_peak_bytes"].Worse(figure.AtLeast), term.Bytes(w.MemoryNeededPeakBytes))
	}
	return m.figure(w.Exactness, "memory_needed_peak_bytes", term.Bytes(w.MemoryNeededPeakBytes))
}

// printRequests compares use with requests, as bars.
func (p *page) printRequests(w client.Workload) {
	if isPending(w) || isStartedArray(w) || neverStarted(w) {
		p.printRequest(w)
		return
	}
	type row struct {
		name, text string
		share      *float64
	}
	var rows []row
	add := func(name, how string, format func(*float64) string, used, asked *float64) {
		if asked != nil && *asked > 0 {
			rows = append(rows, row{name, how + " of " + format(asked), figure.Ratio(used, asked)})
		}
	}
	wall, how := w.WallSeconds, "wall"
	if s := w.SuspendedSeconds; s != nil && *s > 0 { // its time limit was suspended too
		wall, how = max(wall-*s, 0), "ran"
	}
	cores, allocated := w.GivenCores()
	memory, allocatedMemory := w.GivenMemory()
	given, allocatedGPUs := w.GivenGPUs()
	add("Cores", "p95 "+term.Cores(w.CoresP95), term.Cores, w.CoresP95, cores)
	if w.MemoryNeededPeakBytes != nil {
		add("Memory", "needed "+formatNeeded(w), term.Bytes, w.MemoryNeededPeakBytes, memory)
	} else {
		add("Memory", "peak "+term.Bytes(w.MemoryPeakBytes), term.Bytes, w.MemoryPeakBytes, memory)
	}
	var gpus *float64
	if w.GPUSeconds != nil && wall > 0 {
		mean := *w.GPUSeconds / wall
		gpus = &mean
	}
	add("GPUs", "mean "+term.Cores(gpus), term.Cores, gpus, given)
	if ran := float64(len(w.Nodes)); ran > 0 {
		add("Nodes", "ran on "+term.Number(&ran), term.Number, &ran, cmp.Or(w.AllocatedNodes, w.RequestNodes))
	}
	add("Time", how+" "+term.Seconds(&wall), term.Seconds, &wall, w.RequestSeconds)
	if len(rows) == 0 {
		return
	}
	title := "Share of its request used"
	if allocated || allocatedMemory || allocatedGPUs {
		title = "Share of its allocation used"
	}
	p.printf("\n%s", p.Paint(term.Bold, title))
	wide := 0
	for _, r := range rows {
		wide = max(wide, term.Width(r.text))
	}
	bar := 20
	if p.Width > 0 {
		bar = min(bar, p.Width-12-wide-2-2-7) // brackets, and the part above 100 %
	}
	for _, r := range rows {
		text := term.Pad(r.text, wide, false, p.ASCII)
		if bar < 4 { // no space: the number suffices
			p.printWrapped(12, "%-11s %s  %s", r.name, text, term.Percent(r.share))
			continue
		}
		p.printf("%-11s %s  [%s] %s", r.name, text, p.Bar(r.share, bar), term.Percent(r.share))
	}
}

// fewPoints is the number of points up to which no chart is drawn, because a point would be wider than the time
// between two.
const fewPoints = 2

// hasEnoughPoints reports whether enough points have a figure.
func hasEnoughPoints(points []term.Point) bool {
	n := 0
	for _, p := range points {
		if p.Value != nil {
			n++
		}
	}
	return n > fewPoints
}

const memoryTitle = "Memory over time"

// printProfiles draws cores and memory over time, and the other figures as one line each.
func (p *page) printProfiles(d client.WorkloadDetail) {
	width := cmp.Or(p.Width, 80)
	height := 4
	if p.Height == 0 || p.Height >= 40 {
		height = 6
	}
	merged, drawn := mergeProfiles(d.Profile), map[string]bool{}
	for _, m := range merged {
		if m.max == nil || !hasEnoughPoints(m.points) {
			continue
		}
		var limit *float64
		title, allocated := "", false
		switch m.Metric {
		case "cores":
			title = "Cores over time"
			limit, allocated = d.GivenCores()
		case "memory_bytes":
			if *m.max == 0 {
				continue
			}
			title = memoryTitle
			limit, allocated = d.GivenMemory()
		default:
			continue
		}
		of := ""
		if allocated {
			of = "allocated"
		}
		step := time.Duration(d.StepSeconds * float64(time.Second)) // each point is the mean of the step that ends at it
		points := m.points
		for n := len(points); d.End != nil && n > 1 && !points[n-1].Time.Add(-step).Before(*d.End); n-- {
			points = points[:n-1] // its step began after the end
		}
		from, to := points[0].Time.Add(-step), points[len(points)-1].Time
		if d.End != nil && d.End.Before(to) {
			to = d.End.Local()
		}
		if width >= 60 { // a narrow screen has no room for it
			title += ", means of " + term.Seconds(&d.StepSeconds)
		}
		p.chart(term.Chart{Title: title, From: from, To: to, Points: points, Format: unitFormatter(m.Unit),
			Limit: limit, Of: of, Width: min(width, 100),
			Height: height}, d, drawn)
	}
	p.legend(drawn)
	first := true
	for _, m := range merged {
		if m.Metric == "cores" || m.Metric == "memory_bytes" || m.max == nil || *m.max == 0 || !hasEnoughPoints(m.points) {
			continue
		}
		if first {
			p.printf("")
			first = false
		}
		values := make([]*float64, len(m.points))
		for i := range m.points {
			values[i] = m.points[i].Value
		}
		name := strings.NewReplacer("_per_second", "", "_bytes", "", "_cores", "", "_watts", "", "_", " ").Replace(m.Metric)
		p.printf("%s %s  max %s", term.Pad(term.Safe(name), 16, false, p.ASCII), p.Paint(term.Cyan, p.Spark(values, min(width, 100)-34)),
			unitFormatter(m.Unit)(m.max))
	}
}

type mergedProfile struct {
	client.Profile
	points []term.Point
	max    *float64
}

// mergeProfiles sums the profiles of each figure over nodes and parts, unless the server returned the sum. A step is unknown
// only if it is unknown for all of them.
func mergeProfiles(profiles []client.Profile) []mergedProfile {
	var out []mergedProfile
	whole := map[string]bool{}
	for _, pr := range profiles {
		if pr.Node == "" && pr.Part == "" {
			whole[pr.Metric] = true
		}
	}
	for _, pr := range profiles {
		if pr.Metric == commandCores || whole[pr.Metric] && (pr.Node != "" || pr.Part != "") {
			continue
		}
		i := slices.IndexFunc(out, func(m mergedProfile) bool { return m.Metric == pr.Metric })
		if i < 0 {
			out = append(out, mergedProfile{Profile: pr})
			i = len(out) - 1
		}
		out[i].add(pr.Points)
	}
	for i := range out {
		for _, pt := range out[i].points {
			if pt.Value != nil && (out[i].max == nil || *pt.Value > *out[i].max) {
				out[i].max = pt.Value
			}
		}
	}
	return out
}

func (m *mergedProfile) add(points []client.Point) {
	for _, pt := range points {
		i, found := slices.BinarySearchFunc(m.points, pt.Time, func(a term.Point, t time.Time) int { return a.Time.Compare(t) })
		if !found {
			m.points = slices.Insert(m.points, i, term.Point{Time: pt.Time.Local()})
		}
		if pt.Value == nil {
			continue
		}
		sum := *pt.Value
		if old := m.points[i].Value; old != nil {
			sum += *old
		}
		m.points[i].Value = &sum
	}
}

func unitFormatter(unit string) func(*float64) string {
	switch unit {
	case "bytes":
		return term.Bytes
	case "bytes_per_second", "bytes/s":
		return term.Rate
	case "seconds":
		return term.Seconds
	case "ratio":
		return term.Percent
	case "joules":
		return term.Energy
	case "watts":
		return term.Watts
	}
	return term.Cores
}

func (p *page) printCommands(d client.WorkloadDetail) error {
	if len(d.Commands) == 0 {
		return nil
	}
	list := slices.Clone(d.Commands)
	slices.SortStableFunc(list, func(a, b client.Command) int { return cmp.Compare(b.CPUSeconds, a.CPUSeconds) })
	total := 0.0
	for _, c := range list {
		total += c.CPUSeconds
	}
	t := term.TableOf("COMMAND:s8|CPU TIME:r|SHARE:r|PROCESSES:r")
	for _, c := range list {
		t.Add(c.Command, term.Seconds(&c.CPUSeconds), term.Percent(figure.Ratio(&c.CPUSeconds, &total)), term.Number(c.Processes))
	}
	return p.printTable(t)
}

func (p *page) printParts(d client.WorkloadDetail) error {
	parts := d.Parts
	if len(parts) < 2 || len(d.Steps) > 0 && len(d.Nodes) < 2 { // its steps are listed already
		return nil
	}
	named := slices.ContainsFunc(parts, func(x client.Part) bool { return x.Part != "" })
	if !named {
		return nil // the nodes are listed already
	}
	t := term.TableOf("NODE:s8|PART:s8|CPU TIME:r|PEAK MEM:r|GPU TIME:rx")
	shown := parts[:min(len(parts), maxListed)]
	for _, x := range shown {
		t.Add(x.Node, cmp.Or(x.Part, term.Unknown), term.Seconds(x.CPUSeconds), term.Bytes(x.MemoryPeakBytes), term.Seconds(x.GPUSeconds))
	}
	if err := p.printTable(t); err != nil {
		return err
	}
	if more := len(parts) - len(shown); more > 0 {
		p.printf("and %d more parts; --format json lists all", more)
	}
	return nil
}

func (p *page) printTable(t *term.Table) error {
	p.printf("")
	s := p.Screen
	s.Writer = &p.b
	return t.Print(s)
}
