// Package slingshot reads the network adapters of HPE Slingshot (Cassini) from /sys/class/cxi, in the layout of
// the driver and its tool cxi_stat(1):
//
//	cxi0/device/telemetry/hni_sts_rx_ok_octets   123456@1690000000.123456789
//	cxi0/device/port/link                        up          (Cassini 1)
//	cxi0/device/port/0/link/state                up          (Cassini 2)
//	cxi0/device/port/speed                       BS_200G
//
// Traffic through these adapters by libfabric bypasses sockets and the counters of network devices; IP over them
// is counted in both. The counters belong to the adapter, and do not attribute traffic to processes.
//
// The counters have 56 bits and wrap, at full speed after a month; the exported ones do not. Octets, and octets
// per second. The figures have not been verified on a real adapter: the test's tree is constructed after the
// sources of libcxi. A Sensor is used from one goroutine.
package slingshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// listInterval is the interval at which adapters are listed again.
const listInterval = time.Minute

func slingshotDesc(name, help string, kind metric.Kind, unit metric.Unit, labels ...string) *metric.Desc {
	return &metric.Desc{Name: "reckon_slingshot_" + name, Help: help, Kind: kind, Unit: unit, Labels: append([]string{"device"}, labels...)}
}

var (
	received  = slingshotDesc("receive_bytes_total", "Octets of good frames that the adapter received.", metric.Counter, metric.Bytes)
	sent      = slingshotDesc("transmit_bytes_total", "Octets of good frames that the adapter sent.", metric.Counter, metric.Bytes)
	codewords = slingshotDesc("codewords_total",
		"Codewords that the link received, by the result of error correction: good, corrected or uncorrected.", metric.Counter,
		metric.None, "result")
	linkUp   = slingshotDesc("link_up", "1 while the link is up, else 0.", metric.Gauge, metric.None)
	linkRate = slingshotDesc("rate_bytes_per_second", "Rate of the link as it was trained, in each direction.", metric.Gauge, metric.None)
)

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return []*metric.Desc{received, sent, codewords, linkUp, linkRate} }

// telemetryFiles are the files below telemetry that are read.
var telemetryFiles = []struct {
	file   string
	desc   *metric.Desc
	result string
}{
	{"hni_sts_rx_ok_octets", received, ""},
	{"hni_sts_tx_ok_octets", sent, ""},
	{"hni_pcs_good_cw", codewords, "good"},
	{"hni_pcs_corrected_cw", codewords, "corrected"},
	{"hni_pcs_uncorrected_cw", codewords, "uncorrected"},
}

// Sensor reads all adapters of a machine.
type Sensor struct {
	dir      string
	adapters []*adapter
	looked   time.Time
	now      func() time.Time
}

type adapter struct {
	name        string
	link, speed *sysfs.File
	values      [2]*metric.Series
	counters    []*counter
}

type counter struct {
	file       *sysfs.File
	series     *metric.Series
	last, base uint64
	gate       sensor.Register
}

// New searches for adapters below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	s := &Sensor{dir: sysfs.Path(root, "sys/class/cxi"), now: time.Now}
	if err := s.listAdapters(); err != nil {
		return nil, err
	}
	if len(s.adapters) == 0 {
		return nil, sensor.Unavailable("no Slingshot adapter", "", fmt.Errorf("nothing in %s", s.dir))
	}
	return s, nil
}

// listAdapters lists the adapters; known ones stay open.
func (s *Sensor) listAdapters() error {
	list, err := os.ReadDir(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sensor.Unavailable("no Slingshot adapter", "", err)
	case errors.Is(err, fs.ErrPermission):
		return sensor.Unavailable("no permission to list Slingshot adapters", "run as root", err)
	case err != nil:
		return fmt.Errorf("list Slingshot adapters: %w", err)
	}
	s.looked = s.now()
	known := s.adapters
	s.adapters = nil
	for _, e := range list {
		var a *adapter
		for i, k := range known {
			if k != nil && k.name == e.Name() && k.isPresent() {
				a, known[i] = k, nil
			}
		}
		if a == nil {
			a = openAdapter(s.dir, e.Name())
		}
		s.adapters = append(s.adapters, a)
	}
	for _, k := range known {
		k.close()
	}
	return nil
}

func openAdapter(dir, name string) *adapter {
	path := filepath.Join(dir, name, "device")
	label := strings.ToValidUTF8(name, "\uFFFD")
	a := &adapter{name: name, values: [2]*metric.Series{metric.NewSeries(linkUp, label), metric.NewSeries(linkRate, label)}}
	first := func(names ...string) *sysfs.File {
		for _, n := range names {
			if f, err := sysfs.Open(filepath.Join(path, n)); err == nil {
				if _, err := f.Text(); err == nil {
					return f
				}
				_ = f.Close() // a directory, as port/link of Cassini 2 could be
			}
		}
		return nil
	}
	a.link = first("port/link", "port/0/link/state")
	a.speed = first("port/speed", "port/0/link/speed")
	for _, c := range telemetryFiles {
		f, err := sysfs.Open(filepath.Join(path, "telemetry", c.file))
		if err != nil {
			continue
		}
		values := []string{label}
		if c.result != "" {
			values = append(values, c.result)
		}
		a.counters = append(a.counters, &counter{file: f, series: metric.NewSeries(c.desc, values...), gate: sensor.Register{Wrap: wrap}})
	}
	return a
}

func (a *adapter) isPresent() bool {
	for _, c := range a.counters {
		_, err := c.file.Text()
		return !sysfs.IsGone(err)
	}
	return false
}

func (a *adapter) close() {
	if a == nil {
		return
	}
	_ = a.link.Close()
	_ = a.speed.Close()
	for _, c := range a.counters {
		_ = c.file.Close()
	}
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "slingshot" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Read appends every adapter.
func (s *Sensor) Read(b *metric.Batch) error {
	if s.now().Sub(s.looked) >= listInterval {
		if err := s.listAdapters(); err != nil {
			return err
		}
	}
	var failed, refused error
	for _, a := range s.adapters {
		if text, err := a.link.Text(); err == nil && len(text) > 0 {
			up := 0.0
			if bytes.EqualFold(text, []byte("up")) {
				up = 1
			}
			b.Add(a.values[0], up)
		}
		speed := math.Inf(1)
		if text, err := a.speed.Text(); err == nil {
			if v, ok := parseRate(text); ok {
				speed = v
				b.Add(a.values[1], v)
			}
		}
		for _, c := range a.counters {
			text, err := c.file.Text()
			switch v, ok := parseTelemetry(text); {
			case sysfs.IsGone(err):
			case err == nil && ok:
				most := 2 * speed
				if c.series.Desc.Unit != metric.Bytes {
					most = math.Inf(1)
				}
				if _, err := c.gate.Add(s.now(), "counter", c.file.Path(), float64(v), most); err != nil {
					refused = errors.Join(refused, err)
					continue
				}
				b.Add(c.series, c.unwrap(v))
			case failed == nil && err != nil:
				failed = fmt.Errorf("read adapter %s: %w", a.name, err)
			case failed == nil:
				failed = fmt.Errorf("read %s: not like 123@1690000000.5", c.file.Path())
			}
		}
	}
	return sensor.JoinRefused(failed, refused)
}

// Close closes all files.
func (s *Sensor) Close() error {
	for _, a := range s.adapters {
		a.close()
	}
	s.adapters = nil
	return nil
}

// wrap is the number of different values of a counter.
const wrap = 1 << 56

// unwrap extends a counter beyond its 56 bits. A decrease from the lower half means a reset.
func (c *counter) unwrap(v uint64) float64 {
	if v < c.last {
		if c.last >= wrap/2 && v < wrap/2 {
			c.base += wrap
		} else {
			c.base = 0
		}
	}
	c.last = v
	return float64(c.base) + float64(v)
}

// parseTelemetry reads the value of "123456@1690000000.123456789".
func parseTelemetry(text []byte) (uint64, bool) {
	value, _, _ := bytes.Cut(text, []byte{'@'})
	v, ok := sysfs.Number(value)
	return uint64(v), ok && v >= 0 && v < wrap
}

// parseRate reads the rate of BS_200G, ck400G or CD_50G (lanes and coding, then gigabits) as octets per second.
func parseRate(text []byte) (float64, bool) {
	if len(text) < 4 || text[len(text)-1] != 'G' {
		return 0, false
	}
	text = text[:len(text)-1]
	begin := len(text)
	for begin > 0 && text[begin-1] >= '0' && text[begin-1] <= '9' {
		begin--
	}
	v, ok := sysfs.Number(text[begin:])
	return float64(v) * 1e9 / 8, ok && v > 0 && v < 1e5
}
