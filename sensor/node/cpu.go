package node

import (
	"strconv"

	"reckon/internal/sysfs"
	"reckon/metric"
)

var (
	cpuSeconds = counter("node_cpu_seconds_total", "Seconds the CPUs spent in each mode.", metric.Seconds, "cpu", "mode")
	cpuGuest   = counter("node_cpu_guest_seconds_total", "Seconds the CPUs spent in guests (VMs) for each mode.", metric.Seconds, "cpu",
		"mode")
)

// modes in the order of /proc/stat; the last two are guest time.
var modes = [10]string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "user", "nice"}

// userHZ is the unit of times in /proc/stat. USER_HZ is 100 for programs on every architecture that Go supports.
const userHZ = 100

// CPU is the time of each processor by mode.
type CPU struct {
	text *kernelFile
	cpus []processor // by number
}

type processor struct {
	series [10]*metric.Series
	last   [10]uint64
}

// NewCPU opens /proc/stat.
func NewCPU(root string) (*CPU, error) {
	t, err := openFile(root, "proc/stat")
	if err != nil {
		return nil, err
	}
	return &CPU{text: t}, nil
}

// Name returns "cpu".
func (c *CPU) Name() string { return "cpu" }

// Descs lists the two families.
func (c *CPU) Descs() []*metric.Desc { return []*metric.Desc{cpuSeconds, cpuGuest} }

// Close closes the file.
func (c *CPU) Close() error { return c.text.Close() }

// maxCPU is the limit of processor numbers: NR_CPUS is at most 8192.
const maxCPU = 1 << 14

// Read appends the online processors.
func (c *CPU) Read(b *metric.Batch) error {
	t, err := c.text.read()
	if err != nil {
		return err
	}
	found := false
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		n, f, ok := parseCPU(l)
		if !ok {
			continue
		}
		found = true
		for n >= len(c.cpus) {
			c.cpus = append(c.cpus, processor{})
		}
		p := &c.cpus[n]
		if p.series[0] == nil {
			p.createSeries(n)
		}
		for i, v := range f {
			p.last[i] = monotonic(p.last[i], v)
			b.Add(p.series[i], float64(p.last[i])/userHZ)
		}
	}
	if !found {
		return c.text.malformedError("no processor")
	}
	return nil
}

func (p *processor) createSeries(n int) {
	name := strconv.Itoa(n)
	for i, mode := range modes {
		d := cpuSeconds
		if i >= 8 {
			d = cpuGuest
		}
		p.series[i] = metric.NewSeries(d, name, mode)
	}
}

// monotonic returns v, or last if v is slightly lower. The counters idle and iowait may decrease
// (Documentation/filesystems/proc.rst, 1.7). A decrease of 3 s or more is a reset, as in node_exporter.
func monotonic(last, v uint64) uint64 {
	if v < last && last-v < 3*userHZ {
		return last
	}
	return v
}

// parseCPU parses a line such as "cpu1 74608 2520 24433 ..." of /proc/stat. n is the processor number and f holds the
// times. Kernels before 2.6.33 have fewer columns, and the missing times are 0.
func parseCPU(l []byte) (n int, f [10]uint64, ok bool) {
	if len(l) < 5 || string(l[:3]) != "cpu" {
		return 0, f, false
	}
	id, rest := sysfs.Field(l[3:])
	v, ok := sysfs.Unsigned(id)
	if !ok || l[3] == ' ' || v >= maxCPU {
		return 0, f, false
	}
	return int(v), f, parseNumbers(rest, f[:]) >= 4
}
