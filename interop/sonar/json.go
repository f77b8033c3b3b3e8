package sonar

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"reckon/interop/sacct"
)

// epochBase is subtracted from boot times to compute an epoch: 2020-01-01T00:00:00Z.
const epochBase = 1577836800

// readJSON reads consecutive documents, on one line or on several.
func (r *Reader) readJSON(br *bufio.Reader, h *Handler) error {
	line := 1
	for {
		raw, began, err := r.nextDocument(br, &line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && raw == nil:
			return err
		case err != nil:
			h.reportBad(began, err)
			continue
		}
		bad, fatal := r.parseEnvelope(raw, h)
		if fatal != nil {
			return fatal
		}
		if bad != nil {
			h.reportBad(began, bad)
		}
	}
}

// nextDocument reads the next JSON object and returns it with the number of its first line. Text outside of any object, a
// truncated object and an object that is too long are errors.
func (r *Reader) nextDocument(br *bufio.Reader, line *int) (raw []byte, began int, err error) {
	depth, inText, escaped := 0, false, false
	began = *line
	for {
		b, err := br.ReadByte()
		if errors.Is(err, io.EOF) && raw != nil {
			return raw, began, errors.New("the document is cut off")
		}
		if err != nil {
			return nil, began, err
		}
		if raw == nil {
			began = *line
		}
		if b == '\n' {
			*line++
		}
		switch {
		case depth == 0 && b == '{':
		case depth == 0 && (b == ' ' || b == '\n' || b == '\r' || b == '\t'):
			continue
		case depth == 0:
			rest, err := br.ReadSlice('\n')
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
			if err == nil {
				*line++
			}
			return append([]byte{b}, rest[:min(len(rest), 40)]...), began,
				fmt.Errorf("%q is no JSON object", abbreviate(append([]byte{b}, bytes.TrimSpace(rest)...)))
		}
		if len(raw) < r.o.MaxEnvelope {
			raw = append(raw, b)
		}
		switch {
		case escaped:
			escaped = false
		case inText:
			escaped, inText = b == '\\', b != '"'
		case b == '"':
			inText = true
		case b == '{':
			depth++
		case b == '}':
			if depth--; depth == 0 {
				if len(raw) >= r.o.MaxEnvelope {
					return raw[:0], began, fmt.Errorf("document is longer than %d bytes", r.o.MaxEnvelope)
				}
				return raw, began, nil
			}
		}
	}
}

// envelope is any of the documents; the type is detected from the contents.
type envelope struct {
	Data *struct {
		Type       string          `json:"type"`
		Attributes json.RawMessage `json:"attributes"`
	} `json:"data"`
	Errors []struct {
		Detail string `json:"detail"`
		Node   string `json:"node"`
	} `json:"errors"`

	// The JSON that accompanied the free CSV.
	Timestamp string          `json:"timestamp"`
	Hostname  string          `json:"hostname"`
	CPUCores  int             `json:"cpu_cores"`
	MemGB     float64         `json:"mem_gb"`
	GPUCards  int             `json:"gpu_cards"`
	Time      string          `json:"time"`
	Host      string          `json:"host"`
	Samples   []legacyProcess `json:"samples"`
	Jobs      json.RawMessage `json:"jobs"`
	Error     string          `json:"error"`
}

// ErrReported marks, by errors.Is, a record that contains only sonar's report of its own error. It was read but has no data.
var ErrReported = errors.New("reported an error and nothing else")

func (r *Reader) parseEnvelope(raw []byte, h *Handler) (bad, fatal error) {
	var e envelope
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("not a document of sonar: %w", err), nil
	}
	switch {
	case e.Data != nil:
		return r.parseData(e.Data.Type, e.Data.Attributes, h)
	case len(e.Errors) > 0:
		return fmt.Errorf("sonar on node %q %w: %s", e.Errors[0].Node, ErrReported, abbreviate([]byte(e.Errors[0].Detail))), nil
	case e.Error != "":
		return fmt.Errorf("sonar %w: %s", ErrReported, abbreviate([]byte(e.Error))), nil
	case e.Hostname != "":
		at, err := r.parseTime([]byte(e.Timestamp))
		if err != nil || h.Sysinfo == nil {
			return err, nil
		}
		return nil, h.Sysinfo(&Sysinfo{Time: at, Node: e.Hostname, Cores: e.CPUCores, Memory: e.MemGB * (1 << 30), GPUs: e.GPUCards})
	case e.Host != "":
		return r.parseOldSample(&e, h)
	case e.Jobs != nil:
		var list []map[string]string
		if err := json.Unmarshal(e.Jobs, &list); err != nil {
			return fmt.Errorf("jobs: %w", err), nil
		}
		for _, fields := range list {
			job, err := sacct.FromFields(func(name string) string { return fields[name] }, nil)
			if err != nil {
				bad = errors.Join(bad, err)
			} else if h.Job != nil {
				if fatal := h.Job(&job); fatal != nil {
					return bad, fatal
				}
			}
		}
		return bad, nil
	}
	return errors.New("a JSON object without data, samples, jobs or a host name: not sonar's"), nil
}

func (r *Reader) parseData(what string, raw json.RawMessage, h *Handler) (bad, fatal error) {
	switch what {
	case "sample":
		var a sampleAttributes
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("sample: %w", err), nil
		}
		return r.parseSample(&a, h)
	case "sysinfo":
		var a sysinfoAttributes
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("sysinfo: %w", err), nil
		}
		at, err := r.parseTime([]byte(a.Time))
		if err == nil && a.Node == "" {
			err = errors.New("sysinfo: node is empty")
		}
		if err != nil || h.Sysinfo == nil {
			return err, nil
		}
		return nil, h.Sysinfo(&Sysinfo{Time: at, Cluster: r.intern(a.Cluster), Node: r.intern(a.Node), Memory: float64(a.Memory) * 1024,
			Cores: int(a.Sockets * a.CoresPerSocket * a.ThreadsPerCore), GPUs: len(a.Cards)})
	case "job", "jobs":
		return r.parseJobs(raw, h)
	case "cluster":
		return r.parseCluster(raw, h)
	}
	return fmt.Errorf("unknown data type %q; supported: sample, sysinfo, job, cluster", abbreviate([]byte(what))), nil
}

func (r *Reader) parseCluster(raw json.RawMessage, h *Handler) (bad, fatal error) {
	var a struct {
		Time string `json:"time"`
		Name string `json:"cluster"`
		Cluster
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("cluster: %w", err), nil
	}
	at, err := r.parseTime([]byte(a.Time))
	for _, p := range a.Partitions {
		if p.Name == "" && err == nil {
			err = errors.New("cluster: a partition without a name")
		}
	}
	if err != nil || h.Cluster == nil {
		return err, nil
	}
	a.Cluster.Time, a.Cluster.Cluster = at, r.intern(a.Name)
	return nil, h.Cluster(&a.Cluster)
}

type sysinfoAttributes struct {
	Time           string            `json:"time"`
	Cluster        string            `json:"cluster"`
	Node           string            `json:"node"`
	Sockets        uint64            `json:"sockets"`
	CoresPerSocket uint64            `json:"cores_per_socket"`
	ThreadsPerCore uint64            `json:"threads_per_core"`
	Memory         uint64            `json:"memory"`
	Cards          []json.RawMessage `json:"cards"`
}

type sampleAttributes struct {
	Time    string `json:"time"`
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	System  *struct {
		Boot       string     `json:"boot"`
		CPUs       []float64  `json:"cpus"`
		UsedMemory float64    `json:"used_memory"`
		Load1      *float64   `json:"load1"`
		GPUs       []cardJSON `json:"gpus"`
	} `json:"system"`
	Jobs []struct {
		Job       uint64        `json:"job"`
		User      string        `json:"user"`
		Epoch     uint64        `json:"epoch"`
		Processes []processJSON `json:"processes"`
	} `json:"jobs"`
}

// cardJSON is a GPU in a reading. If 0 is a valid value of a number, such as the performance state, sonar writes the
// number plus one. It omits unknown numbers, which therefore decode to 0 (ExtendedUint in sonar's doc/NEW-FORMAT.md).
type cardJSON struct {
	Index       uint64  `json:"index"`
	UUID        string  `json:"uuid"`
	Failing     uint64  `json:"failing"`
	Fan         float64 `json:"fan"`               // percent
	Performance uint64  `json:"performance_state"` // plus one
	Memory      float64 `json:"memory"`            // KiB
	Busy        float64 `json:"ce_util"`           // percent
	Temperature float64 `json:"temperature"`
	Power       float64 `json:"power"`
	PowerLimit  float64 `json:"power_limit"`
	Clock       float64 `json:"ce_clock"`     // MHz
	MemoryClock float64 `json:"memory_clock"` // MHz
}

func (n *cardJSON) toCard() Card {
	c := Card{
		Index: n.Index, UUID: n.UUID, Failing: n.Failing != 0, Fan: n.Fan / 100, Memory: n.Memory * 1024, Busy: n.Busy / 100,
		Temperature: n.Temperature, Power: n.Power, PowerLimit: n.PowerLimit, Clock: n.Clock * 1e6, MemoryClock: n.MemoryClock * 1e6,
	}
	if n.Performance > 0 {
		state := n.Performance - 1
		c.Performance = &state
	}
	return c
}

type processJSON struct {
	Resident float64  `json:"resident_memory"`
	Virtual  float64  `json:"virtual_memory"`
	Cmd      string   `json:"cmd"`
	PID      uint32   `json:"pid"`
	PPID     uint32   `json:"ppid"`
	Threads  uint32   `json:"num_threads"`
	CPUTime  float64  `json:"cpu_time"`
	Mean     float64  `json:"cpu_avg"` // percent
	Rolled   uint32   `json:"rolledup"`
	Read     *float64 `json:"data_read"`
	Written  *float64 `json:"data_written"`
	GPUs     []struct {
		Index  uint64  `json:"index"`
		UUID   string  `json:"uuid"`
		Util   float64 `json:"gpu_util"`
		Memory float64 `json:"gpu_memory"`
	} `json:"gpus"`
}

func (r *Reader) parseSample(a *sampleAttributes, h *Handler) (bad, fatal error) {
	at, err := r.parseTime([]byte(a.Time))
	if err != nil {
		return err, nil
	}
	if a.Node == "" {
		return errors.New("sample: node is empty"), nil
	}
	s := Sample{Time: at, Cluster: r.intern(a.Cluster), Node: r.intern(a.Node)}
	if a.System != nil {
		s.Cores = len(a.System.CPUs)
		s.System = &System{CPU: a.System.CPUs, UsedMemory: a.System.UsedMemory * 1024, Load1: a.System.Load1}
		if t, err := time.Parse(time.RFC3339, a.System.Boot); err == nil {
			s.System.Boot = t.Unix()
		}
		for i := range a.System.GPUs {
			s.System.Cards = append(s.System.Cards, a.System.GPUs[i].toCard())
		}
	}
	for _, j := range a.Jobs {
		for i := range j.Processes {
			n := &j.Processes[i]
			p := Process{
				Job: j.Job, Epoch: j.Epoch, HasEpoch: true, User: r.intern(j.User), Cmd: r.intern(n.Cmd),
				PID: n.PID, PPID: n.PPID, Rolled: n.Rolled, Threads: n.Threads + 1,
				CPU: n.CPUTime, Mean: n.Mean / 100, Resident: n.Resident * 1024, Virtual: n.Virtual * 1024, Read: -1, Written: -1,
			}
			if n.Read != nil || n.Written != nil {
				p.Read, p.Written = kibToBytes(n.Read), kibToBytes(n.Written)
			}
			var cards []string
			for _, g := range n.GPUs {
				cards = append(cards, strconv.FormatUint(g.Index, 10))
				p.GPU, p.GPUMemory = p.GPU+g.Util/100, p.GPUMemory+g.Memory*1024
			}
			p.GPUs = r.intern(strings.Join(cards, ","))
			if n.CPUTime < 0 || n.Resident < 0 || p.GPU < 0 || p.GPUMemory < 0 || p.Read < -1 || p.Written < -1 {
				bad = errors.Join(bad, fmt.Errorf("job %d: process %d has a figure below 0", j.Job, n.PID))
				continue
			}
			if err := p.checkPlausible(); err != nil {
				bad = errors.Join(bad, err)
				continue
			}
			s.Procs = append(s.Procs, p)
		}
	}
	if h.Sample == nil {
		return bad, nil
	}
	return bad, h.Sample(&s)
}

func kibToBytes(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v * 1024
}

// legacyProcess is a process in the JSON that accompanied the free CSV, with the latter's names.
type legacyProcess struct {
	User     string  `json:"user"`
	Cmd      string  `json:"cmd"`
	Job      uint64  `json:"job"`
	Epoch    *uint64 `json:"epoch"`
	PID      uint32  `json:"pid"`
	PPID     uint32  `json:"ppid"`
	Virtual  float64 `json:"cpukib"`
	Resident float64 `json:"rssanonkib"`
	GPUs     string  `json:"gpus"`
	GPU      float64 `json:"gpu%"`
	GPUKib   float64 `json:"gpukib"`
	CPUTime  float64 `json:"cputime_sec"`
	Mean     float64 `json:"cpu%"`
	Rolled   uint32  `json:"rolledup"`
}

func (r *Reader) parseOldSample(e *envelope, h *Handler) (bad, fatal error) {
	at, err := r.parseTime([]byte(e.Time))
	if err != nil {
		return err, nil
	}
	s := Sample{Time: at, Node: r.intern(e.Host)}
	for _, o := range e.Samples {
		cards, err := r.parseCards([]byte(o.GPUs))
		if err != nil || o.CPUTime < 0 || o.Resident < 0 || o.GPU < 0 || o.GPUKib < 0 {
			bad = errors.Join(bad, err, fmt.Errorf("process %d of job %d cannot be parsed", o.PID, o.Job))
			continue
		}
		p := Process{Job: o.Job, User: r.intern(o.User), Cmd: r.intern(o.Cmd), PID: o.PID, PPID: o.PPID, Rolled: o.Rolled,
			CPU: o.CPUTime, Mean: o.Mean / 100, Resident: o.Resident * 1024, Virtual: o.Virtual * 1024, Read: -1, Written: -1,
			GPUs: cards, GPU: o.GPU / 100, GPUMemory: o.GPUKib * 1024}
		if o.Epoch != nil {
			p.Epoch, p.HasEpoch = *o.Epoch, true
		}
		if err := p.checkPlausible(); err != nil {
			bad = errors.Join(bad, err)
			continue
		}
		s.Procs = append(s.Procs, p)
	}
	if h.Sample == nil {
		return bad, nil
	}
	return bad, h.Sample(&s)
}
