// Package sonar reads what sonar (https://github.com/NordicHPC/sonar) writes: the "free
// CSV" of every release, untagged lines of the first ones included, the JSON that came
// beside it, and the JSON envelopes of types sample, sysinfo, job and cluster that
// replaced both (util/formats of that repository is their specification).
//
// Reading is a stream: memory does not grow with the input. What can not be read is
// named with its line and the rest is taken. Only how things are written down is known
// here; what the figures mean for a workload is package importer's.
//
// Figures are converted to SI base units: bytes, seconds, shares of one device or core.
// Times are Unix seconds. A [Reader] is used from one goroutine.
package sonar

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"reckon/interop/sacct"
)

// Sample is what sonar saw on a node at a moment, or, in CSV, one process of it.
type Sample struct {
	Time    int64
	Cluster string // empty in CSV
	Node    string
	Cores   int     // of the node; 0 unknown
	System  *System // nil when it is not reported
	Procs   []Process
}

// System is the state of a node.
type System struct {
	Boot       int64     // Unix seconds, 0 unknown
	CPU        []float64 // busy seconds of each core since boot
	UsedMemory float64   // bytes, 0 unknown
	// TotalMemory is what the node has, in bytes; 0 unknown. Only CSV says it here.
	TotalMemory float64
	Load1       *float64
	Cards       []Card
}

// Card is what a reading says of one GPU. Figures that sonar left out because they are
// the default are that default: it leaves out what is 0.
type Card struct {
	Index       uint64
	UUID        string
	Failing     bool    // it is in an error state, and the other figures say nothing
	Fan         float64 // share of its highest speed
	Performance *uint64 // performance level, 0 the highest of NVIDIA's; nil unknown
	Memory      float64 // bytes in use
	Busy        float64 // share of time
	Temperature float64 // degrees Celsius
	Power       float64 // watts
	PowerLimit  float64 // watts
	Clock       float64 // hertz, of the compute elements
	MemoryClock float64 // hertz
}

// Process is one process, or several of one name that sonar added up.
type Process struct {
	Job       uint64
	Epoch     uint64 // 0 for jobs of a batch system; see HasEpoch
	HasEpoch  bool
	User, Cmd string
	PID, PPID uint32
	Rolled    uint32 // how many further processes are in it
	Threads   uint32 // 0 unknown

	// CPU is user and system time since the process began, that of children it waited
	// for included. It is negative when unknown: sonar's first releases wrote only the
	// mean over the lifetime, of which nothing follows about any time in particular.
	CPU float64
	// Mean is the mean of cores used over the whole life, negative when unknown: with CPU
	// it is the age of the process, not a time.
	Mean float64
	// Resident and Virtual are bytes, negative when unknown.
	Resident, Virtual float64
	Read, Written     float64 // bytes since the process began, negative when unknown

	GPUs      string  // cards in use, joined by commas; empty for none or unknown
	GPU       float64 // cards busy at this moment, 1 for one card; negative when unknown
	GPUMemory float64 // bytes, negative when unknown
}

// What a process can have at most, for a value that was garbled on its way: seconds of CPU
// (the cores of the largest machines for ten years), bytes of memory, bytes read or written,
// and cards.
const (
	maxCPU    = 1 << 44
	maxMemory = 1 << 50
	maxBytes  = 1 << 60
	maxShare  = 1 << 16
)

// possible refuses a process that has more of something than any machine.
func (p *Process) possible() error {
	for _, f := range []struct {
		name    string
		v, most float64
		unit    string
	}{
		{"CPU time", p.CPU, maxCPU, "s"}, {"mean of cores", p.Mean, maxShare, ""}, {"resident memory", p.Resident, maxMemory, "B"}, {"virtual memory", p.Virtual, maxBytes, "B"},
		{"data read", p.Read, maxBytes, "B"}, {"data written", p.Written, maxBytes, "B"}, {"GPU use", p.GPU, maxShare, ""}, {"GPU memory", p.GPUMemory, maxMemory, "B"},
	} {
		if f.v > f.most {
			return fmt.Errorf("%s of %s (job %d, process %d) is %.3g %s: no machine gives that", f.name, clip([]byte(p.Cmd)), p.Job, p.PID, f.v, f.unit)
		}
	}
	return nil
}

// Sysinfo is what a node is made of.
type Sysinfo struct {
	Time          int64
	Cluster, Node string
	Cores         int
	Memory        float64 // bytes
	GPUs          int
}

// Cluster is what was reported of the nodes and partitions of a cluster. Lists of nodes are as
// Slurm writes them.
type Cluster struct {
	Time       int64        `json:"-"`
	Cluster    string       `json:"-"`
	Partitions []Partition  `json:"partitions"`
	Nodes      []NodeStates `json:"nodes"`
}

// Partition is a partition and its nodes.
type Partition struct {
	Name  string   `json:"name"`
	Nodes []string `json:"nodes"`
}

// NodeStates are nodes and the words for the state that they are in.
type NodeStates struct {
	Names  []string `json:"names"`
	States []string `json:"states"`
}

// Handler takes what is read. What it is given is valid until it returns, strings longer.
// A nil function passes over.
type Handler struct {
	Sample  func(*Sample) error
	Sysinfo func(*Sysinfo) error
	Cluster func(*Cluster) error
	Job     func(*sacct.Job) error
	// Bad is called for input that can not be read, by line.
	Bad func(line int, err error)
}

// Options say how input is read that does not say it itself.
type Options struct {
	// MaxLine and MaxEnvelope bound one line of CSV and one JSON document; 1 and 64 MiB.
	MaxLine, MaxEnvelope int
}

// Reader reads inputs one after another and keeps names that come again once.
type Reader struct {
	o     Options
	names map[string]string
	last  struct {
		text string
		at   int64
	}
	row   row
	one   [1]Process
	cells [][]byte
}

// NewReader returns a reader.
func NewReader(o Options) *Reader {
	if o.MaxLine <= 0 {
		o.MaxLine = 1 << 20
	}
	if o.MaxEnvelope <= 0 {
		o.MaxEnvelope = 64 << 20
	}
	return &Reader{o: o, names: map[string]string{}}
}

// Read reads one input, CSV or JSON as its first byte says. The error is that of the
// input's reader or of the handler: mistakes in the input go to Bad.
func (r *Reader) Read(in io.Reader, h *Handler) error {
	br := bufio.NewReaderSize(in, 256<<10)
	for {
		b, err := br.Peek(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch b[0] {
		case '{':
			return r.readJSON(br, h)
		case '[':
			h.bad(1, errors.New("a JSON array: sonar writes objects; is it a file of configuration?"))
			return nil
		case 0xef, 0xbb, 0xbf: // byte order mark
			if _, err := br.Discard(1); err != nil {
				return err
			}
		default:
			return r.readCSV(br, h)
		}
	}
}

func (h *Handler) bad(line int, err error) {
	if h.Bad != nil {
		h.Bad(line, err)
	}
}

// maxNames bounds the names that are kept once; hostile input has more of them.
const maxNames = 1 << 17

func (r *Reader) name(b []byte) string {
	if s, ok := r.names[string(b)]; ok {
		return s
	}
	s := string(bytes.ToValidUTF8(b, []byte("?")))
	if len(r.names) < maxNames {
		r.names[s] = s
	}
	return s
}

func (r *Reader) intern(s string) string {
	if k, ok := r.names[s]; ok {
		return k
	}
	if len(r.names) < maxNames {
		r.names[s] = s
	}
	return s
}

// The times that are believed: outside of them the field holds something else.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
)

func (r *Reader) when(b []byte) (int64, error) {
	if r.last.text != "" && string(b) == r.last.text {
		return r.last.at, nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return 0, fmt.Errorf("time %q: want 2006-01-02T15:04:05+00:00", clip(b))
	}
	at := t.Unix()
	if at < earliest || at > latest {
		return 0, fmt.Errorf("time %q lies outside of the years 2000 to 2200", clip(b))
	}
	r.last.text, r.last.at = string(b), at
	return at, nil
}

func clip(b []byte) string {
	if len(b) > 60 {
		return string(b[:57]) + "..."
	}
	return string(b)
}
