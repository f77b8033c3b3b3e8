package node

import (
	"bytes"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// Pressure is the time for which processes waited for a resource (PSI, Documentation/accounting/psi.rst).
type Pressure struct {
	parts []pressureFile
	descs []*metric.Desc
}

type pressureFile struct {
	text          *kernelFile
	waiting       *metric.Series // some
	stalled       *metric.Series // full; nil if it is undefined
	lastW, lastSt float64
}

var pressureDescs = []struct {
	file             string
	waiting, stalled *metric.Desc
}{
	{
		"cpu", counter("node_pressure_cpu_waiting_seconds_total", "Total time in seconds that processes have waited for CPU time.",
			metric.Seconds), nil},
	{
		"io", counter("node_pressure_io_waiting_seconds_total", "Total time in seconds that processes have waited due to IO congestion.",
			metric.Seconds),
		counter("node_pressure_io_stalled_seconds_total", "Total time in seconds no process could make progress due to IO congestion.",
			metric.Seconds)},
	{
		"memory", counter("node_pressure_memory_waiting_seconds_total", "Total time in seconds that processes have waited for memory.",
			metric.Seconds),
		counter("node_pressure_memory_stalled_seconds_total",
			"Total time in seconds no process could make progress due to memory congestion.", metric.Seconds)},
	{
		"irq", nil, counter("node_pressure_irq_stalled_seconds_total",
			"Total time in seconds no process could make progress due to IRQ congestion.", metric.Seconds)},
}

// NewPressure opens /proc/pressure. It does not exist on kernels before 4.20 or without CONFIG_PSI, and may be disabled
// at boot.
func NewPressure(root string) (*Pressure, error) {
	p := &Pressure{}
	for _, d := range pressureDescs {
		t, err := openFile(root, "proc/pressure/"+d.file)
		if d.file == "irq" && err != nil {
			continue // since 6.1, with CONFIG_IRQ_TIME_ACCOUNTING
		}
		if err == nil {
			_, err = t.read()
		}
		switch {
		case errors.Is(err, unix.EOPNOTSUPP):
			_ = t.Close()
			if d.file == "irq" {
				continue
			}
			return nil, errors.Join(sensor.Unavailable("pressure stall information is switched off", "boot with psi=1", err), p.Close())
		case errors.Is(err, fs.ErrNotExist):
			return nil, errors.Join(sensor.Unavailable("no pressure stall information",
				"needs a kernel from 4.20 with CONFIG_PSI, and psi=1 on its command line where CONFIG_PSI_DEFAULT_DISABLED is set",
				errors.Unwrap(err)), p.Close())
		case err != nil:
			return nil, errors.Join(err, t.Close(), p.Close())
		}
		part := pressureFile{text: t}
		if d.waiting != nil {
			part.waiting = metric.NewSeries(d.waiting)
			p.descs = append(p.descs, d.waiting)
		}
		if d.stalled != nil {
			part.stalled = metric.NewSeries(d.stalled)
			p.descs = append(p.descs, d.stalled)
		}
		p.parts = append(p.parts, part)
	}
	return p, nil
}

// Name returns "pressure".
func (p *Pressure) Name() string { return "pressure" }

// Descs lists the resources that this kernel reports.
func (p *Pressure) Descs() []*metric.Desc { return p.descs }

// Close closes the files.
func (p *Pressure) Close() error {
	var errs error
	for i := range p.parts {
		errs = errors.Join(errs, p.parts[i].text.Close())
	}
	return errs
}

// Read appends the totals.
func (p *Pressure) Read(b *metric.Batch) error {
	var errs error
	for i := range p.parts {
		part := &p.parts[i]
		t, err := part.text.read()
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		some, full, haveSome, haveFull := parsePressure(t)
		if part.waiting != nil && haveSome {
			part.lastW = max(part.lastW, float64(some)/1e6)
			b.Add(part.waiting, part.lastW)
		}
		if part.stalled != nil && haveFull {
			part.lastSt = max(part.lastSt, float64(full)/1e6)
			b.Add(part.stalled, part.lastSt)
		}
		if !haveSome && !haveFull {
			errs = errors.Join(errs, part.text.malformedError("no total"))
		}
	}
	return errs
}

// parsePressure parses the totals, in microseconds, of
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=12345
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=2345
func parsePressure(t []byte) (some, full uint64, haveSome, haveFull bool) {
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		i := bytes.LastIndex(l, []byte("total="))
		if i < 0 {
			continue
		}
		w, _ := sysfs.Field(l[i+6:])
		v, ok := sysfs.Unsigned(w)
		switch key, _ := sysfs.Field(l); string(key) {
		case "some":
			some, haveSome = v, ok
		case "full":
			full, haveFull = v, ok
		}
	}
	return some, full, haveSome, haveFull
}
