package infiniband

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// portReader reads one port through its open files.
type portReader struct {
	number                 string
	state, physical, speed *sysfs.File
	values                 [3]*metric.Series // state, physical state, rate
	layer                  *metric.Series
	counters               []portCounter
}

// portCounter is one file of a port.
type portCounter struct {
	file      *sysfs.File
	series    *metric.Series
	scale     float64
	top       int64
	saturated *metric.Series // for a counter that may saturate
	gate      sensor.Register
}

// openPort opens the files of a port; nil if it has no state, and is not a port.
func openPort(dir, device, number string) *portReader {
	p := &portReader{number: number}
	p.state, _ = sysfs.Open(filepath.Join(dir, "state"))
	p.physical, _ = sysfs.Open(filepath.Join(dir, "phys_state"))
	p.speed, _ = sysfs.Open(filepath.Join(dir, "rate"))
	if p.state == nil {
		p.close()
		return nil
	}
	for i, d := range []*metric.Desc{stateID, physicalID, rateDesc} {
		p.values[i] = metric.NewSeries(d, device, number)
	}
	if l := sysfs.ReadWord(dir, "link_layer"); l != "" {
		p.layer = metric.NewSeries(layerDesc, device, number, l)
	}
	data := 0
	for _, f := range portCounters {
		if p.openCounter(dir, device, f) && (f.desc == receivedDesc || f.desc == sentDesc) {
			data++
		}
	}
	if data == 0 {
		for _, f := range byteCounters {
			p.openCounter(dir, device, f)
		}
	}
	return p
}

// openCounter opens the counter of field f below dir. It returns false if the adapter does not have the counter. Its file is
// then missing, unreadable, or contains "N/A (no PMA)".
func (p *portReader) openCounter(dir, device string, f counterField) bool {
	file, err := sysfs.Open(filepath.Join(dir, f.file))
	if err != nil {
		return false
	}
	text, err := file.Text()
	if _, ok := sysfs.Number(text); err == nil && !ok || isUnsupported(err) {
		_ = file.Close()
		return false
	}
	c := portCounter{file: file, series: metric.NewSeries(f.desc, device, p.number), scale: f.scale, top: f.top}
	if f.top != 0 {
		c.saturated = metric.NewSeries(saturatedDesc, device, p.number, filepath.Base(f.file))
	}
	p.counters = append(p.counters, c)
	return true
}

// isUnsupported reports whether an adapter lacks a counter although its file exists.
func isUnsupported(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOENT) ||
		errors.Is(err, fs.ErrPermission)
}

// maxIncrease returns the largest possible rise of a counter per second. For octets, that is twice the rate of the link.
func (c *portCounter) maxIncrease(rate float64) float64 {
	if rate > 0 && c.series.Desc.Unit == metric.Bytes {
		return 2 * rate
	}
	return math.Inf(1)
}

// read appends the state and the counters of the port. For a removed device it appends nothing and returns no error,
// because the next device list will not contain the device.
func (p *portReader) read(b *metric.Batch, now time.Time) error {
	text, err := p.state.Text()
	if sysfs.IsGone(err) {
		return nil
	}
	var failed, refused error
	note := func(err error) {
		if failed == nil && !sysfs.IsGone(err) {
			failed = err
		}
	}
	if v, ok := parseLeadingNumber(text); err == nil && ok {
		b.Add(p.values[0], v)
	} else {
		note(readOrContentError(err, p.state))
	}
	if p.physical != nil {
		if text, err := p.physical.Text(); err == nil {
			if v, ok := parseLeadingNumber(text); ok {
				b.Add(p.values[1], v)
			}
		}
	}
	speed := 0.0
	if p.speed != nil {
		if text, err := p.speed.Text(); err == nil {
			if v, ok := parseRate(text); ok {
				speed = v
				b.Add(p.values[2], v)
			}
		}
	}
	if p.layer != nil {
		b.Add(p.layer, 1)
	}
	for i := range p.counters {
		c := &p.counters[i]
		v, err := c.file.Int()
		switch {
		case err != nil:
			note(err)
		case v < 0: // not a counter
		case c.top != 0 && v == c.top:
			b.Add(c.saturated, 1)
		default:
			if _, err := c.gate.Add(now, "counter", c.file.Path(), float64(v)*c.scale, c.maxIncrease(speed)); err != nil {
				refused = errors.Join(refused, err)
				continue
			}
			b.Add(c.series, float64(v)*c.scale)
		}
	}
	return sensor.JoinRefused(failed, refused)
}

// readOrContentError returns the read error, or one that reports unexpected content.
func readOrContentError(err error, f *sysfs.File) error {
	if err != nil {
		return err
	}
	return errors.New("read " + f.Path() + ": not like \"4: ACTIVE\"")
}

func (p *portReader) close() {
	for _, f := range []*sysfs.File{p.state, p.physical, p.speed} {
		_ = f.Close()
	}
	for i := range p.counters {
		_ = p.counters[i].file.Close()
	}
}

// parseLeadingNumber reads the number of "4: ACTIVE".
func parseLeadingNumber(text []byte) (value float64, ok bool) {
	number, _, found := bytes.Cut(text, []byte{':'})
	v, ok := sysfs.Number(number)
	return float64(v), found && ok && v >= 0
}

// parseRate reads "100 Gb/sec (4X EDR)" or "2.5 Gb/sec (1X SDR)" as octets per second.
func parseRate(text []byte) (bytesPerSecond float64, ok bool) {
	number, unit, found := bytes.Cut(text, []byte{' '})
	if !found || !bytes.HasPrefix(unit, []byte("Gb/sec")) {
		return 0, false
	}
	whole, tenth, point := bytes.Cut(number, []byte{'.'})
	v, ok := sysfs.Number(whole)
	if !ok || v < 0 || v > 1e6 {
		return 0, false
	}
	out := float64(v)
	if point {
		if len(tenth) != 1 || tenth[0] < '0' || tenth[0] > '9' {
			return 0, false
		}
		out += float64(tenth[0]-'0') / 10
	}
	return out * 1e9 / 8, true
}

// labelValue makes a name of a device fit for a label.
func labelValue(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
