package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

// order is a sort order of the workloads, the largest first.
type order struct {
	key     string // key on the keyboard
	name    string
	compare func(a, b *client.LiveWorkload) int
}

func sortOrders() []order {
	return []order{
		{"c", "cpu", func(a, b *client.LiveWorkload) int { return cmp.Compare(b.Cores, a.Cores) }},
		{"m", "memory", func(a, b *client.LiveWorkload) int { return compareKnown(b.MemoryBytes, a.MemoryBytes) }},
		{"i", "io", func(a, b *client.LiveWorkload) int { return compareKnown(storageRate(b), storageRate(a)) }},
		{"b", "network", func(a, b *client.LiveWorkload) int { return compareKnown(networkRate(b), networkRate(a)) }},
		{"f", "traffic", func(a, b *client.LiveWorkload) int { return compareKnown(b.MemoryTrafficRate, a.MemoryTrafficRate) }},
		{"g", "gpu", func(a, b *client.LiveWorkload) int {
			return cmp.Or(compareKnown(b.GPU, a.GPU), compareKnown(b.GPUMemory, a.GPUMemory))
		}},
		{"w", "wait", func(a, b *client.LiveWorkload) int { return compareKnown(b.Wait, a.Wait) }},
		{"p", "processes", func(a, b *client.LiveWorkload) int { return cmp.Compare(b.Processes, a.Processes) }},
		{"t", "time", func(a, b *client.LiveWorkload) int { return cmp.Compare(b.CPUSeconds, a.CPUSeconds) }},
		{"n", "name", func(a, b *client.LiveWorkload) int { return cmp.Compare(a.ID, b.ID) }},
	}
}

func orderNames() []string {
	var out []string
	for _, o := range sortOrders() {
		out = append(out, o.name)
	}
	return out
}

func findOrder(name string) int {
	return slices.IndexFunc(sortOrders(), func(o order) bool { return o.name == name })
}

// compareKnown compares figures. An unknown one is smaller than any other.
func compareKnown(a, b *float64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

func storageRate(w *client.LiveWorkload) *float64 { return sumKnown(w.ReadRate, w.WriteRate) }

func networkRate(w *client.LiveWorkload) *float64 { return sumKnown(w.ReceiveRate, w.TransmitRate) }

// sumKnown returns the sum of the known figures.
func sumKnown(in, out *float64) (sum *float64) {
	figure.Plus(&sum, in)
	figure.Plus(&sum, out)
	return sum
}

// topModel is the state of the screen. It is not safe for concurrent use.
type topModel struct {
	screen term.Screen
	client *client.Client // nil if there is no server for details
	source string
	ctx    context.Context // of the program, for its commands
	feed   <-chan feedMsg

	now     client.Live
	have    bool
	history map[string][]*float64 // cores of each workload over the last ticks
	trouble string
	fatal   error

	view    view
	order   int
	reverse bool
	paused  bool
	held    *client.Live // latest tick while paused
	filter  string
	typing  bool
	chosen  string // key of the selected workload
	first   int    // index of the first row on the screen
	detail  *client.WorkloadDetail
	asked   time.Time // when detail was last requested
}

type view int

const (
	viewList view = iota
	viewDetail
	viewHelp
)

const historyLength = 120

func newTopModel(s term.Screen, c *client.Client, source string, order int) *topModel {
	return &topModel{screen: s, client: c, source: source, order: order, history: map[string][]*float64{}}
}

func rowKey(w *client.LiveWorkload) string { return w.ID + "\x00" + w.Part }

// Init starts listening.
func (m *topModel) Init() tea.Cmd { return m.listen }

func (m *topModel) listen() tea.Msg {
	f, ok := <-m.feed
	if !ok {
		return feedMsg{end: true}
	}
	return f
}

type detailMsg struct {
	id     string
	detail client.WorkloadDetail
	err    error
}

// Update handles a key, a tick or a new size.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.screen.Width, m.screen.Height = msg.Width, msg.Height
	case feedMsg:
		return m, m.handleTick(msg)
	case detailMsg:
		if w := m.selected(); w != nil && w.ID == msg.id && msg.err == nil {
			m.detail = &msg.detail
		}
	case tea.KeyPressMsg:
		return m, m.handleKey(msg.Key())
	case tea.PasteMsg:
		if m.typing {
			m.filter, m.first = m.filter+msg.Content, 0
		}
	}
	return m, nil
}

func (m *topModel) handleTick(f feedMsg) tea.Cmd {
	switch {
	case f.end:
		if f.err != nil {
			m.fatal = f.err
		}
		return tea.Quit
	case f.err != nil:
		m.trouble = f.err.Error()
		return m.listen
	}
	m.trouble = ""
	if m.paused {
		m.held = &f.live
		return m.listen
	}
	m.setTick(f.live)
	return tea.Batch(m.listen, m.requestDetail())
}

// setTick makes l the displayed tick.
func (m *topModel) setTick(l client.Live) {
	m.now, m.have = l, true
	seen := make(map[string]bool, len(l.Workloads))
	for i := range l.Workloads {
		w := &l.Workloads[i]
		key := rowKey(w)
		seen[key] = true
		h := append(m.history[key], &w.Cores)
		if len(h) > historyLength {
			h = slices.Clone(h[len(h)-historyLength:])
		}
		m.history[key] = h
	}
	for key := range m.history {
		if !seen[key] {
			delete(m.history, key)
		}
	}
}

// rows returns the workloads that match the filter, in order.
func (m *topModel) rows() []*client.LiveWorkload {
	var out []*client.LiveWorkload
	word := strings.ToLower(m.filter)
	for i := range m.now.Workloads {
		w := &m.now.Workloads[i]
		if word == "" || strings.Contains(strings.ToLower(w.ID+" "+w.Part+" "+w.Name+" "+w.Owner+" "+w.Command), word) {
			out = append(out, w)
		}
	}
	by := sortOrders()[m.order]
	slices.SortStableFunc(out, func(a, b *client.LiveWorkload) int {
		c := by.compare(a, b)
		if m.reverse {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(b.CPUSeconds, a.CPUSeconds), cmp.Compare(rowKey(a), rowKey(b)))
	})
	return out
}

// selected returns the workload under the cursor: the chosen one, or the first.
func (m *topModel) selected() *client.LiveWorkload {
	rows := m.rows()
	for _, w := range rows {
		if rowKey(w) == m.chosen {
			return w
		}
	}
	if m.view == viewDetail || len(rows) == 0 {
		return nil
	}
	return rows[0]
}

// requestDetail requests the commands of the displayed workload from the server, at intervals.
func (m *topModel) requestDetail() tea.Cmd {
	w := m.selected()
	if m.view != viewDetail || m.client == nil || w == nil || time.Since(m.asked) < 5*time.Second {
		return nil
	}
	m.asked = time.Now()
	id := w.ID
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, 5*time.Second)
		defer cancel()
		d, err := m.client.Workload(ctx, id, client.Range{})
		return detailMsg{id, d, err}
	}
}

func (m *topModel) handleKey(k tea.Key) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.editFilter(k)
		return nil
	}
	switch name := k.String(); name {
	case "q":
		return tea.Quit
	case "?", "h":
		if m.view == viewHelp {
			m.view = viewList
		} else {
			m.view = viewHelp
		}
	case "esc":
		if m.view != viewList {
			m.view = viewList
		} else {
			m.filter = ""
		}
	case "space":
		m.pause()
	case "/":
		m.view, m.typing = viewList, true
	case "r":
		m.reverse = !m.reverse
	case "enter":
		if m.view != viewList {
			m.view = viewList
			return nil
		}
		if w := m.selected(); w != nil {
			m.chosen, m.view, m.detail, m.asked = rowKey(w), viewDetail, nil, time.Time{}
			return m.requestDetail()
		}
	case "up", "k":
		m.moveCursor(-1)
	case "down", "j":
		m.moveCursor(1)
	case "pgup":
		m.moveCursor(-m.visibleRows())
	case "pgdown":
		m.moveCursor(m.visibleRows())
	case "home":
		m.moveCursor(-1 << 30)
	case "end", "G":
		m.moveCursor(1 << 30)
	default:
		for i, o := range sortOrders() {
			if o.key == name {
				m.order, m.reverse, m.first = i, false, 0
			}
		}
	}
	return nil
}

func (m *topModel) editFilter(k tea.Key) {
	switch name := k.String(); name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	case "ctrl+u":
		m.filter = ""
	default:
		m.filter += k.Text
	}
	m.first = 0
}

func (m *topModel) pause() {
	m.paused = !m.paused
	if !m.paused && m.held != nil {
		m.setTick(*m.held)
		m.held = nil
	}
}

func (m *topModel) moveCursor(by int) {
	rows := m.rows()
	if len(rows) == 0 {
		return
	}
	at := slices.IndexFunc(rows, func(w *client.LiveWorkload) bool { return rowKey(w) == m.chosen })
	at = min(max(max(at, 0)+by, 0), len(rows)-1)
	m.chosen = rowKey(rows[at])
	m.detail, m.asked = nil, time.Time{}
}
