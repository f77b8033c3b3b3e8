package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/term"
	"reckon/web/client"
)

// View draws the screen on top of the terminal's content.
func (m *topModel) View() tea.View {
	v := tea.NewView(m.render())
	v.AltScreen = true
	return v
}

// render returns the screen: at most its height in lines, each at most its width.
func (m *topModel) render() string {
	if m.screen.Width < 10 || m.screen.Height < 3 {
		return "q quits"
	}
	var lines []string
	switch {
	case m.view == viewHelp:
		lines = helpLines()
	case !m.have:
		lines = []string{"Waiting for the first figures of " + m.source + " ..."}
	case m.view == viewDetail:
		lines = append(m.header(), m.detailLines()...)
	default:
		lines = append(m.header(), m.listLines()...)
	}
	body := m.screen.Height - 1
	if len(lines) > body {
		lines = lines[:body]
	}
	for len(lines) < body {
		lines = append(lines, "")
	}
	lines = append(lines, m.footer())
	for i, l := range lines {
		lines[i] = cutStyled(l, m.screen.Width, m.screen.ASCII)
	}
	return strings.Join(lines, "\n")
}

// cutStyled cuts a line that may contain colours. A line that is too long loses them.
func cutStyled(l string, width int, ascii bool) string {
	if term.Width(l) <= width {
		return l
	}
	return term.Cut(term.Strip(l), width, ascii)
}

func (m *topModel) machineLine() string {
	l := &m.now
	if m.screen.Width > 0 && m.screen.Width < 72 {
		return fmt.Sprintf("%s  CPU %s  memory %s  %s", term.Safe(l.Node), term.Percent(figure.Ratio(l.CoresUsed, &l.Cores)),
			term.Percent(figure.Ratio(l.MemUsed, l.Memory)), l.Time.Local().Format(time.TimeOnly))
	}
	return fmt.Sprintf("%s  %s  cores %s  memory %s  %s", term.Safe(l.Node), l.Time.Local().Format(time.TimeOnly),
		formatUsed(term.Cores, l.CoresUsed, &l.Cores), formatUsed(term.Bytes, l.MemUsed, l.Memory),
		format.Plural(float64(len(l.Workloads)), "workload"))
}

// header returns the name of the machine and its bars, as three lines or as one on a small screen.
func (m *topModel) header() []string {
	l := &m.now
	if m.screen.Height < 12 || m.screen.Width < 50 {
		return []string{m.machineLine()}
	}
	count := format.Plural(float64(len(l.Workloads)), "workload")
	if m.filter != "" || m.typing {
		count = fmt.Sprintf("%d of %s", len(m.rows()), count)
	}
	status := ""
	switch {
	case m.paused:
		status = m.screen.Paint(term.Yellow, "  paused")
	case m.trouble != "":
		status = m.screen.Paint(term.Red, "  no news: "+term.Safe(m.trouble))
	}
	title := m.screen.Paint(term.Bold, term.Safe(l.Node)) + "  " + l.Time.Local().Format(time.TimeOnly) + "  " + count + status
	width := min(m.screen.Width-36, 60)
	bar := func(name string, part, whole *float64, format func(*float64) string) string {
		s := figure.Ratio(part, whole)
		style := term.Green
		if s != nil && term.Level(*s) != term.Plain {
			style = term.Level(*s)
		}
		return fmt.Sprintf("%-6s [%s] %s  %s", name, m.screen.Paint(style, m.screen.Bar(s, width)), term.Percent(s),
			formatUsed(format, part, whole))
	}
	lines := []string{title, bar("CPU", l.CoresUsed, &l.Cores, term.Cores), bar("Memory", l.MemUsed, l.Memory, term.Bytes)}
	if l.GPUs != nil {
		lines = append(lines, bar("GPU", l.GPUsUsed, l.GPUs, term.Cores))
	}
	if l.GPUMemory != nil {
		lines = append(lines, bar("GPUmem", l.GPUMemUsed, l.GPUMemory, term.Bytes))
	}
	return append(lines, "")
}

// visibleRows returns the number of table rows that fit.
func (m *topModel) visibleRows() int {
	return max(m.screen.Height-len(m.header())-2, 1) // headings and footer
}

func (m *topModel) listLines() []string {
	rows := m.rows()
	if len(rows) == 0 {
		return []string{"no workload matches " + term.Safe(m.filter)}
	}
	at := 0
	for i, w := range rows {
		if rowKey(w) == m.chosen {
			at = i
		}
	}
	n := m.visibleRows()
	m.first = min(max(m.first, at-n+1, 0), max(len(rows)-n, 0), at)
	shown := rows[m.first:min(m.first+n, len(rows))]
	var b strings.Builder
	s := m.screen
	s.Writer = &b
	s.Width -= 2 // the mark of the selected row
	if err := m.workloadTable(shown).Print(s); err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		if m.first+i-1 == at && i > 0 {
			lines[i] = m.screen.Paint(term.Reverse, term.Pad("> "+lines[i], m.screen.Width, false, s.ASCII))
		} else {
			lines[i] = "  " + lines[i]
		}
	}
	return lines
}

// workloadTable formats one row per workload and marks the heading of the sort order.
func (m *topModel) workloadTable(rows []*client.LiveWorkload) *term.Table {
	mark := func(name, title string) string {
		if sortOrders()[m.order].name != name {
			return title
		}
		return title + m.sortArrow()
	}
	wide := 22 // with it the columns for storage and processes fit into 80
	switch w := m.screen.Width; {
	case w > 0 && w < 70:
		wide = max(w/3, 8)
	case w >= 100:
		wide = min(w/4, 40)
	}
	columns := []term.Column{
		{Title: mark("name", "WORKLOAD"), Shrink: wide, Min: wide},
		{Title: "OWNER", Shrink: 6, Min: 6, Optional: 1},
		{Title: mark("cpu", "CORES"), Right: true, Min: 6},
		{Title: mark("time", "CPU TIME"), Right: true, Min: 8, Optional: 3},
		{Title: mark("memory", "MEMORY"), Right: true, Min: 8},
		{Title: "PEAK", Right: true, Min: 8, Optional: 7},
		{Title: mark("io", "STORAGE"), Right: true, Min: 10, Optional: 4},
		{Title: mark("network", "NETWORK"), Right: true, Min: 10, Optional: 5},
		{Title: mark("wait", "WAIT"), Right: true, Min: 5, Optional: 8},
		{Title: mark("processes", "PROCS"), Right: true, Min: 6, Optional: 2},
		{Title: "THR", Right: true, Min: 4, Optional: 9},
		{Title: "COMMAND", Shrink: 8, Min: 15, Optional: 6},
		{Title: mark("traffic", "MEM TRAFFIC"), Right: true, Min: 10, Optional: 5, Rare: true},
		{Title: mark("gpu", "GPU"), Right: true, Min: 5, Rare: true},
		{Title: "GPU MEM", Right: true, Min: 8, Optional: 1, Rare: true},
		{Title: "GPU WATTS", Right: true, Min: 6, Optional: 4, Rare: true},
	}
	t := term.NewTable(columns...)
	for _, w := range rows {
		processes, threads := float64(w.Processes), float64(w.Threads)
		is := func(key, text string) string { return marked{}.figure(w.Exactness, key, text) }
		t.Add(displayName(w), w.Owner, is("cpu_seconds", term.Cores(&w.Cores)), is("cpu_seconds", term.Seconds(&w.CPUSeconds)),
			is("memory_bytes", term.Bytes(w.MemoryBytes)), is("memory_peak_bytes", term.Bytes(w.MemoryPeak)),
			marked{}.degree(w.Exactness["io_read_bytes"].Worse(w.Exactness["io_write_bytes"]), term.Rate(storageRate(w))),
			is("network_bytes", term.Rate(networkRate(w))), term.Cores(w.Wait), term.Number(&processes), term.Number(&threads), w.Command,
			is("memory_traffic_bytes", term.Rate(w.MemoryTrafficRate)), is("gpu_seconds", term.Cores(w.GPU)), term.Bytes(w.GPUMemory),
			term.Watts(w.GPUWatts))
	}
	return t
}

func (m *topModel) sortArrow() string {
	up := m.reverse != (sortOrders()[m.order].name == "name")
	switch {
	case m.screen.ASCII && up:
		return "^"
	case m.screen.ASCII:
		return "v"
	case up:
		return "▲"
	}
	return "▼"
}

// displayName returns the display name of the workload: its name if the id does not end with it, its id, and its part.
func displayName(w *client.LiveWorkload) string {
	s := w.ID
	if w.Name != "" && !strings.HasSuffix(w.ID, "/"+w.Name) {
		s = w.Name + " " + s
	}
	if w.Part != "" {
		s += " " + w.Part
	}
	return s
}

func (m *topModel) detailLines() []string {
	w := m.selected()
	if w == nil {
		id, _, _ := strings.Cut(m.chosen, "\x00")
		return []string{term.Safe(id) + " has ended; press esc to go back"}
	}
	p := &page{Screen: m.screen}
	p.printf("%s", p.Paint(term.Bold, term.Safe(displayName(w))))
	started := ""
	if w.StartedAt > 0 {
		started = "started " + term.Ago(time.Unix(w.StartedAt, 0), m.now.Time)
	}
	p.addFact("Owner", term.Safe(w.Owner), started, "busiest program "+term.Safe(cmp.Or(w.Command, term.Unknown)))
	marks := marked{}
	is := func(key, text string) string { return marks.figure(w.Exactness, key, text) }
	p.addFact("Cores", "now "+is("cpu_seconds", term.Cores(&w.Cores)), "waiting "+term.Cores(w.Wait),
		"CPU time "+is("cpu_seconds", term.Seconds(&w.CPUSeconds)))
	p.addFact("Memory", "now "+is("memory_bytes", term.Bytes(w.MemoryBytes)), "peak "+is("memory_peak_bytes", term.Bytes(w.MemoryPeak)))
	p.addFact("Storage", "read "+is("io_read_bytes", term.Rate(w.ReadRate)), "write "+is("io_write_bytes", term.Rate(w.WriteRate)))
	p.addFact("Network", "received "+is("network_bytes", term.Rate(w.ReceiveRate)), "sent "+is("network_bytes", term.Rate(w.TransmitRate)))
	p.addFact("Mem traffic", is("memory_traffic_bytes", term.Rate(w.MemoryTrafficRate)))
	processes, threads := float64(w.Processes), float64(w.Threads)
	p.addFact("Processes", term.Number(&processes), "threads "+term.Number(&threads))
	if legend := marks.legend(); legend != "" {
		p.addFact("Marks", legend)
	}
	m.addCoresChart(p, m.history[m.chosen])
	if m.detail != nil {
		if err := p.printCommands(*m.detail); err != nil {
			return []string{err.Error()}
		}
	}
	return strings.Split(strings.TrimSuffix(p.b.String(), "\n"), "\n")
}

func (m *topModel) addCoresChart(p *page, history []*float64) {
	if len(history) < 2 {
		return
	}
	points := make([]term.Point, historyLength) // the time before top started is a gap
	for i := range points {
		points[i].Time = m.now.Time.Local().Add(time.Duration(i-historyLength+1) * time.Second)
		if k := i - historyLength + len(history); k >= 0 {
			points[i].Value = history[k]
		}
	}
	p.b.WriteString(
		"\n" + p.Draw(term.Chart{Title: "Cores over the last two minutes", Points: points, Format: term.Cores,
			Width: min(m.screen.Width, 100), Height: 4}))
}

func (m *topModel) footer() string {
	if m.typing {
		return "/" + term.Safe(m.filter) + "_  enter keeps, esc clears"
	}
	if m.trouble != "" && (m.screen.Height < 12 || m.screen.Width < 50) {
		return m.screen.Paint(term.Red, term.Safe(m.trouble))
	}
	var text string
	switch m.view {
	case viewDetail:
		text = "esc back  up/down next  space pause  q quit"
	case viewHelp:
		text = "? or esc back  q quit"
	default:
		text = "? help  / filter  enter details  c m i w p t n order  space pause  q quit"
		if m.screen.Width < 80 {
			text = "? help  / filter  q quit"
		}
		if m.filter != "" {
			text = "filter " + term.Safe(m.filter) + " (esc clears)  " + text
		}
		if m.paused {
			text = "paused (space resumes)  " + text
		}
	}
	return m.screen.Paint(term.Quiet, term.Cut(text, m.screen.Width, m.screen.ASCII))
}

func helpLines() []string {
	return strings.Split(`reckon top: who uses what right now

  c  CPU: cores in use          up, down   select a workload (also k, j)
  m  memory                     enter      show it alone, and come back
  i  storage read and written   /          show only what contains a word
  b  network, both ways         esc        forget the word, or go back
  f  memory traffic             space      hold the picture, and go on
  w  waiting for a processor    r          turn the order round
  p  processes                  q          quit
  t  CPU time since the start
  n  name

  CORES   processors kept busy over the last second; 1 is one core
  STORAGE read and written over the last second
  WAIT    threads that were ready to run and got no processor, in cores
  PEAK    the highest memory so far
  >= ~    at least, as something of it could not be seen; estimated or modelled
  -       not measured on this machine; see reckon nodes`, "\n")
}
