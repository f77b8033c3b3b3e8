// Package sonar parses the output of sonar (https://github.com/NordicHPC/sonar): the "free CSV" of every release, including untagged
// lines of the first ones, the JSON that accompanied it, and the JSON envelopes of types sample, sysinfo, job and cluster that replaced
// both (util/formats of that repository is their specification).
//
// Input is read as a stream: memory does not grow with the input. Unreadable input is reported with its line and the rest is used. This
// package handles only the formats; package importer interprets the figures for workloads.
//
// Figures are converted to SI base units: bytes, seconds, shares of one device or core. Times are Unix seconds. A [Reader] is not safe
// for concurrent use.
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

// Sample is sonar's measurement of a node at one time. In CSV it covers only one process.
type Sample struct {
	Time    int64
	Cluster string // empty in CSV
	Node    string
	Cores   int     // of the node; 0 if unknown
	System  *System // nil if not reported
	Procs   []Process
}

// System is the state of a node.
type System struct {
	Boot       int64     // Unix seconds, 0 if unknown
	CPU        []float64 // busy seconds of each core since boot
	UsedMemory float64   // bytes, 0 if unknown
	// TotalMemory is the memory of the node, in bytes; 0 if unknown. Only CSV has it here.
	TotalMemory float64
	Load1       *float64
	Cards       []Card
}

// Card is the measurement of one GPU. Sonar omits figures that have their default value, mostly 0, so a missing figure
// gets that value.
type Card struct {
	Index       uint64
	UUID        string
	Failing     bool    // it is in an error state, and the other figures are meaningless
	Fan         float64 // share of its maximum speed
	Performance *uint64 // performance level, 0 is NVIDIA's highest; nil if unknown
	Memory      float64 // bytes in use
	Busy        float64 // share of time
	Temperature float64 // degrees Celsius
	Power       float64 // watts
	PowerLimit  float64 // watts
	Clock       float64 // hertz, of the compute elements
	MemoryClock float64 // hertz
}

// Process is one process, or several with one name that sonar summed.
type Process struct {
	Job       uint64
	Epoch     uint64 // 0 for jobs of a batch system; see HasEpoch
	HasEpoch  bool
	User, Cmd string
	PID, PPID uint32
	Rolled    uint32 // number of further processes included
	Threads   uint32 // 0 unknown

	// CPU is user and system time since the start of the process, including reaped children. It is negative if unknown:
	// sonar's first releases wrote only the mean over the lifetime, which does not show when the time was used.
	CPU float64
	// Mean is the mean number of cores used over the whole life, negative if unknown: together with CPU it gives the age of the process.
	Mean float64
	// Resident and Virtual are in bytes, negative if unknown.
	Resident, Virtual float64
	Read, Written     float64 // bytes since the start of the process, negative if unknown

	GPUs      string  // cards in use, joined by commas; empty for none or unknown
	GPU       float64 // cards busy at this moment, 1 for one card; negative if unknown
	GPUMemory float64 // bytes, negative if unknown
}

// Upper limits for the figures of a process, to detect corrupt lines. They are CPU seconds (all cores of the largest
// machines for ten years), bytes of memory, bytes read or written, and the number of cards in use.
const (
	maxCPU    = 1 << 44
	maxMemory = 1 << 50
	maxBytes  = 1 << 60
	maxShare  = 1 << 16
)

// checkPlausible rejects a process that uses more of something than any machine has.
func (p *Process) checkPlausible() error {
	for _, f := range []struct {
		name    string
		v, most float64
		unit    string
	}{
		{"CPU time", p.CPU, maxCPU, "s"}, {"mean of cores", p.Mean, maxShare, ""}, {"resident memory", p.Resident, maxMemory, "B"},
		{"virtual memory", p.Virtual, maxBytes, "B"},
		{"data read", p.Read, maxBytes, "B"}, {"data written", p.Written, maxBytes, "B"}, {"GPU use", p.GPU, maxShare, ""},
		{"GPU memory", p.GPUMemory, maxMemory, "B"},
	} {
		if f.v > f.most {
			return fmt.Errorf("%s of %s (job %d, process %d) is %.3g %s: no machine gives that", f.name, abbreviate([]byte(p.Cmd)), p.Job,
				p.PID,
				f.v, f.unit)
		}
	}
	return nil
}

// Sysinfo is the hardware of a node.
type Sysinfo struct {
	Time          int64
	Cluster, Node string
	Cores         int
	Memory        float64 // bytes
	GPUs          int
}

// Cluster is a report of the nodes and partitions of a cluster. Lists of nodes are in Slurm's format.
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

// NodeStates are nodes and the words for their states.
type NodeStates struct {
	Names  []string `json:"names"`
	States []string `json:"states"`
}

// Handler receives the parsed data, which is valid until the function returns; strings stay valid. Data for a nil function is skipped.
type Handler struct {
	Sample  func(*Sample) error
	Sysinfo func(*Sysinfo) error
	Cluster func(*Cluster) error
	Job     func(*sacct.Job) error
	// Bad is called for unreadable input, with its line.
	Bad func(line int, err error)
}

// Options configure limits of the input.
type Options struct {
	// MaxLine and MaxEnvelope limit one line of CSV and one JSON document, in bytes; 0 is 1 and 64 MiB.
	MaxLine, MaxEnvelope int
}

// Reader reads inputs one after another and interns repeated names.
type Reader struct {
	o     Options
	names map[string]string
	last  struct {
		text string
		at   int64
	}
	row   csvRow
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

// Read reads one CSV or JSON input and passes its readings to h. The first byte determines the format. Read returns
// errors of in and of the handler. Errors in the text are passed to Bad of the handler.
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
			h.reportBad(1, errors.New("a JSON array: sonar writes objects; is it a file of configuration?"))
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

func (h *Handler) reportBad(line int, err error) {
	if h.Bad != nil {
		h.Bad(line, err)
	}
}

// maxNames is the maximum number of interned names. Only hostile input has more.
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

// The range of plausible times. Other values mean that the field contains something else.
var (
	earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
)

func (r *Reader) parseTime(b []byte) (int64, error) {
	if r.last.text != "" && string(b) == r.last.text {
		return r.last.at, nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return 0, fmt.Errorf("time %q: want 2006-01-02T15:04:05+00:00", abbreviate(b))
	}
	at := t.Unix()
	if at < earliest || at > latest {
		return 0, fmt.Errorf("time %q is outside the years 2000 to 2200", abbreviate(b))
	}
	r.last.text, r.last.at = string(b), at
	return at, nil
}

func abbreviate(b []byte) string {
	if len(b) > 60 {
		return string(b[:57]) + "..."
	}
	return string(b)
}
