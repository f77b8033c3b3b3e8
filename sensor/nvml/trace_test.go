package nvml

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// traceLine is one line of testdata/h100/nvml-trace.jsonl.gz: what the library answered at one time.
type traceLine struct {
	T        float64   `json:"t"`
	Phase    string    `json:"phase"`
	Util     [2]uint32 `json:"util"`
	Energy   uint64    `json:"energy_mj"`
	Mem      struct{ Total, Reserved, Used uint64 }
	Compute  []traceProcess  `json:"compute"`
	Graphics []traceProcess  `json:"graphics"`
	MPS      []traceProcess  `json:"mps"`
	Procutil json.RawMessage `json:"procutil"`
	Samples  json.RawMessage `json:"samples"`
	GPM      json.RawMessage `json:"gpm"`
	Span     float64         `json:"gpm_span"`
	gpm      map[string]float64
	uses     []processSample
	samples  []utilizationSample
}

type traceProcess struct {
	PID    uint32 `json:"pid"`
	Memory uint64 `json:"usedGpuMemory"`
}

// load is one load of truth.json.
type traceLoad struct {
	Name       string
	Start, End float64
	MJ         float64
	Commands   []struct {
		PID       int32
		Processes []struct {
			PID  int32
			Busy float64
			H2D  float64 `json:"h2d_bytes"`
		}
	}
}

// trace is a recorded machine.
type trace struct {
	lines []traceLine
	loads []traceLoad
	alive map[int32]*traceLife
}

// traceLife is a process of a trace: its group, and the first and last line that list it.
type traceLife struct {
	pid, group  int32
	first, last float64
	held        bool // it was in a list or a sample
	server      bool
}

const traceFolder = "testdata/h100"

func readTrace(t testing.TB, suffix string) *trace {
	t.Helper()
	f, err := os.Open(filepath.Join(traceFolder, "nvml-trace"+suffix+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	tr := &trace{alive: map[int32]*traceLife{}}
	in := bufio.NewScanner(z)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l traceLine
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal(l.GPM, &l.gpm)
		var uses []struct {
			PID  uint32 `json:"pid"`
			Time uint64 `json:"timeStamp"`
			SM   uint32 `json:"smUtil"`
		}
		_ = json.Unmarshal(l.Procutil, &uses)
		for _, u := range uses {
			l.uses = append(l.uses, processSample{pid: u.PID, time: u.Time, sm: u.SM})
		}
		var samples [][2]uint64
		_ = json.Unmarshal(l.Samples, &samples)
		for _, s := range samples {
			v := utilizationSample{time: s[0]}
			binary.NativeEndian.PutUint64(v.value[:], s[1])
			l.samples = append(l.samples, v)
		}
		tr.lines = append(tr.lines, l)
	}
	if in.Err() != nil {
		t.Fatal(in.Err())
	}
	readJSON(t, "truth"+suffix+".json", &tr.loads)
	tr.meet()
	return tr
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(traceFolder, name))
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// meet makes the processes from the lists and the truth: one group for each command, and one for what is in no command.
func (tr *trace) meet() {
	groups := map[int32]int32{}
	for _, l := range tr.loads {
		for _, c := range l.Commands {
			tr.alive[c.PID] = &traceLife{pid: c.PID, group: c.PID, first: l.Start, last: l.End}
			for _, p := range c.Processes {
				groups[p.PID] = c.PID
			}
		}
	}
	for _, l := range tr.lines {
		for _, p := range slices.Concat(l.Compute, l.Graphics, l.MPS) {
			tr.hold(int32(p.PID), l.T, groups)
		}
		for _, u := range l.uses {
			tr.hold(int32(u.pid), l.T, groups)
		}
	}
}

func (tr *trace) hold(pid int32, at float64, groups map[int32]int32) {
	group, known := groups[pid]
	if !known {
		group = pid
	}
	p := tr.alive[pid]
	if p == nil {
		p = &traceLife{pid: pid, group: group, first: at, last: at, server: !known}
		tr.alive[pid] = p
	}
	if !p.held { // a process of its own command began with it, and its context a moment later
		p.held, p.first = true, at
	}
	p.last = at
}

// player answers as the library did, thinned to every fourth line.
type player struct {
	*fake
	tr         *trace
	was, at    int  // the lines of the last tick and of this one
	lastOfEach bool // of the samples of processes, the driver returns the last of each
	calls      map[string]int
	gpms       map[gpmSample]int
	gate       chan struct{} // when set, the driver waits for it
	blind      bool          // no list and no sample shows a process of less than a second
	late       float64       // seconds by which the sample of GPM came after the time of the line
}

func newPlayer(tr *trace, phase int, lastOfEach bool) *player {
	f := farm(1, 0)
	return &player{fake: f, tr: tr, was: phase - 1, at: phase, lastOfEach: lastOfEach, calls: map[string]int{}, gpms: map[gpmSample]int{}}
}

func (p *player) now() *traceLine { return &p.tr.lines[p.at] }

func (p *player) time() time.Time { return time.UnixMicro(int64((p.now().T + p.late) * 1e6)) }

// wall is the time of the line, whatever the driver does meanwhile.
func (p *player) wall() time.Time { return time.UnixMicro(int64(p.now().T * 1e6)) }

// next moves on by four lines; false is the end.
func (p *player) next() bool {
	p.was, p.late = p.at, 0
	if p.at+4 >= len(p.tr.lines) {
		return false
	}
	p.at += 4
	return true
}

func (p *player) call(name string) { p.calls[name]++ }

func (p *player) Utilization(handle) (uint32, uint32, code) {
	p.call("Utilization")
	return p.now().Util[0], p.now().Util[1], codeSuccess
}

func (p *player) Samples(_ handle, kind uint32, since uint64, dst []utilizationSample) (int, code) {
	p.call("Samples_GPU")
	if kind != sampleGPU {
		return 0, codeNotSupported
	}
	n := 0
	for i := max(p.at-60, 0); i <= p.at; i++ { // the driver keeps many seconds
		for _, s := range p.tr.lines[i].samples {
			if s.time > since && n < len(dst) {
				dst[n] = s
				n++
			}
		}
	}
	if n == 0 {
		return 0, codeNotFound
	}
	return n, codeSuccess
}

func (p *player) Memory(handle) (memoryInfo, code) {
	p.call("Memory2")
	if p.gate != nil {
		<-p.gate
	}
	m := p.now().Mem
	return memoryInfo{used: m.Used, size: m.Total, reserved: m.Reserved}, codeSuccess
}

func (p *player) Energy(handle) (uint64, code) {
	p.call("Energy")
	return p.now().Energy, codeSuccess
}

// Power is the mean over a second, as of this generation.
func (p *player) Power(handle) (uint32, code) {
	p.call("Power")
	a, b := &p.tr.lines[max(p.at-4, 0)], p.now()
	if b.T <= a.T {
		return 70_000, codeSuccess
	}
	return uint32(float64(b.Energy-a.Energy) / (b.T - a.T)), codeSuccess
}

func (p *player) Processes(_ handle, kind int, dst []processInfo) (int, code) {
	p.call([...]string{"Processes_compute", "Processes_graphics", "Processes_mps"}[kind])
	list := [...][]traceProcess{p.now().Compute, p.now().Graphics, p.now().MPS}[kind]
	list = slices.DeleteFunc(slices.Clone(list), func(q traceProcess) bool { return p.hidden(q.PID) })
	if len(list) > len(dst) {
		return len(list), codeInsufficientSize
	}
	for i, q := range list {
		dst[i] = processInfo{pid: q.PID, memory: q.Memory, gpuInstance: instanceNone, instance: instanceNone}
	}
	return len(list), codeSuccess
}

func (p *player) ProcessUse(_ handle, since uint64, dst []processSample) (int, code) {
	p.call("ProcessUtilization")
	var out []processSample
	for i := max(p.at-20, 0); i <= p.at; i++ { // the driver keeps some seconds
		for _, u := range p.tr.lines[i].uses {
			if u.time > since && !p.hidden(u.pid) {
				out = append(out, u)
			}
		}
	}
	if p.lastOfEach {
		slices.SortStableFunc(out, func(a, b processSample) int {
			return cmp.Or(cmp.Compare(a.pid, b.pid), -cmp.Compare(a.time, b.time))
		})
		out = slices.CompactFunc(out, func(a, b processSample) bool { return a.pid == b.pid })
	}
	if len(out) == 0 {
		return 0, codeNotFound
	}
	if len(out) > len(dst) {
		return len(out), codeInsufficientSize
	}
	return copy(dst, out), codeSuccess
}

func (p *player) hidden(pid uint32) bool {
	l := p.tr.alive[int32(pid)]
	return p.blind && l != nil && l.last-l.first < 1
}

func (p *player) GPM(handle) (bool, code) { return true, codeSuccess }

func (p *player) NewGPMSample() (gpmSample, code) {
	s := gpmSample(len(p.gpms) + 1)
	p.gpms[s] = -1
	return s, codeSuccess
}

func (p *player) SampleGPM(_ handle, _ uint32, s gpmSample) code {
	p.call("GpmSampleGet")
	p.gpms[s] = p.at
	for _, l := range p.tr.lines[:p.at+1] { // spans count from the first sample
		p.late += l.Span
	}
	p.late = max(p.late-(p.now().T-p.tr.lines[0].T), 0)
	return codeSuccess
}

// gpmNames are the metrics of a trace by the library's numbers.
var gpmNames = map[uint32]string{
	1: "graphics", 2: "sm", 3: "sm_occ", 4: "integer", 5: "any_tensor", 6: "dfma_tensor", 7: "hmma_tensor", 9: "imma_tensor", 10: "dram",
	11: "fp64", 12: "fp32", 13: "fp16", 20: "pcie_tx", 21: "pcie_rx",
}

// GPMMetrics is the mean by span.
func (p *player) GPMMetrics(before, after gpmSample, ids []uint32, values []float64) code {
	p.call("GpmMetricsGet")
	from, to := p.gpms[before], p.gpms[after]
	if from < 0 || to <= from {
		return 2
	}
	for i, id := range ids {
		sum, span := 0.0, 0.0
		name, ok := gpmNames[id]
		for _, l := range p.tr.lines[from+1 : to+1] {
			if l.gpm == nil {
				continue
			}
			sum, span = sum+l.gpm[name]*l.Span, span+l.Span
		}
		values[i] = math.NaN()
		if ok && span > 0 {
			values[i] = sum / span
		}
	}
	return codeSuccess
}
