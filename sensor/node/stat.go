package node

import (
	"reckon/internal/sysfs"
	"reckon/metric"
)

// statDescs are the figures of /proc/stat that have one number, with their keys.
var statDescs = []struct {
	key  string
	desc *metric.Desc
}{
	{"intr", counter("node_intr_total", "Total number of interrupts serviced.", metric.None)},
	{"ctxt", counter("node_context_switches_total", "Total number of context switches.", metric.None)},
	{"btime", gauge("node_boot_time_seconds", "Node boot time, in unixtime.", metric.Seconds)},
	{"processes", counter("node_forks_total", "Total number of forks.", metric.None)},
	{"procs_running", gauge("node_procs_running", "Number of processes in runnable state.", metric.None)},
	{"procs_blocked", gauge("node_procs_blocked", "Number of processes blocked waiting for I/O to complete.", metric.None)},
}

// Stat is the counters of /proc/stat for the whole machine, except CPU time.
type Stat struct {
	text   *kernelFile
	descs  []*metric.Desc
	series []*metric.Series
}

// NewStat opens /proc/stat.
func NewStat(root string) (*Stat, error) {
	t, err := openFile(root, "proc/stat")
	if err != nil {
		return nil, err
	}
	s := &Stat{text: t}
	for _, d := range statDescs {
		s.descs = append(s.descs, d.desc)
	}
	s.series = newSeries(s.descs)
	return s, nil
}

// Name returns "stat".
func (s *Stat) Name() string { return "stat" }

// Descs lists the figures.
func (s *Stat) Descs() []*metric.Desc { return s.descs }

// Close closes the file.
func (s *Stat) Close() error { return s.text.Close() }

// Read appends the figures.
func (s *Stat) Read(b *metric.Batch) error {
	t, err := s.text.read()
	if err != nil {
		return err
	}
	found := false
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		key, rest := sysfs.Field(l)
		for i := range statDescs {
			if string(key) != statDescs[i].key {
				continue
			}
			w, _ := sysfs.Field(rest)
			if v, ok := sysfs.Unsigned(w); ok {
				b.Add(s.series[i], float64(v))
				found = true
			}
		}
	}
	if !found {
		return s.text.malformedError("none of its figures")
	}
	return nil
}
