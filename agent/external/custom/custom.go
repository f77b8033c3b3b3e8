// Package custom reads numbers from files that the configuration names: an attribute of
// sysfs, a file of one number, or a value in a JSON file.
//
//   - name: board_fan_hertz
//     help: Speed of the fan.
//     file: /sys/class/hwmon/hwmon*/fan1_input
//     path_label: device        # what the first * of the path matches
//     scale: 0.016666667        # revolutions per minute
//   - name: rig_pressure_pascals
//     file: /run/rig/state.json
//     json: chambers.0.pressure
//     labels: {rig: a}
//
// Figures belong to the machine, or to the workload that the configuration names. The
// value is the number times scale plus offset. A Sensor is used from one goroutine.
package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/agent/external/promtext"
	"reckon/metric"
	"reckon/sensor"
)

// Reading configures one number to read from a file. The fields have the names of the configuration.
type Reading struct {
	Name string `yaml:"name"`
	Help string `yaml:"help"`
	// Kind is gauge (the default) or counter; a counter's name ends in _total.
	Kind string `yaml:"kind"`
	// Unit, if given, is a base unit in the plural that the name ends in, such as watts.
	Unit string `yaml:"unit"`
	// File is the path of one file, or a pattern (* ? [...]) for several.
	File string `yaml:"file"`
	// PathLabel is the label for the text matched by the first * of File. It is required if a
	// pattern matches several files.
	PathLabel string `yaml:"path_label"`
	// JSON is the path of the number in a JSON file: names and indices separated by dots. If it is
	// empty, the file begins with the number.
	JSON   string            `yaml:"json"`
	Scale  *float64          `yaml:"scale"`
	Offset float64           `yaml:"offset"`
	Labels map[string]string `yaml:"labels"`
	// Workload is the workload of the figure, as kind/name; empty is the machine.
	Workload string `yaml:"workload"`
}

// Limits.
const (
	maxFiles = 256
	maxBytes = 1 << 20
)

// Sensor reads the numbers of a configuration.
type Sensor struct {
	root     string
	readings []*configuredReading
	buf      []byte
}

type configuredReading struct {
	Reading
	scale  float64
	desc   *metric.Desc
	cache  metric.Cache
	origin *sensor.Origin
	values []string // label values; PathLabel's is filled in
	at     int      // of PathLabel, -1 without
}

// New checks the readings. A missing file is not an error: it may appear later.
func New(root string, list []Reading) (*Sensor, error) {
	if len(list) == 0 {
		return nil, sensor.Unavailable("no numbers of files are configured", "", nil)
	}
	s := &Sensor{root: root, buf: make([]byte, 0, 4<<10)}
	seen := map[string]bool{}
	for i := range list {
		r, err := newReading(list[i])
		if err != nil {
			return nil, fmt.Errorf("reading %d (%s): %w", i+1, list[i].Name, err)
		}
		key := r.Name + fmt.Sprint(r.Labels, r.Workload)
		if seen[key] && r.PathLabel == "" {
			return nil, fmt.Errorf("reading %d: %s stands there twice with the same labels", i+1, r.Name)
		}
		seen[key] = true
		s.readings = append(s.readings, r)
	}
	return s, nil
}

func newReading(c Reading) (*configuredReading, error) {
	r := &configuredReading{Reading: c, scale: 1, at: -1, origin: &sensor.Origin{Workload: c.Workload, Trusted: true}}
	kind := metric.Gauge
	switch c.Kind {
	case "", "gauge":
	case "counter":
		kind = metric.Counter
	default:
		return nil, fmt.Errorf("kind %q: write gauge or counter", c.Kind)
	}
	base, total := strings.CutSuffix(c.Name, "_total")
	switch {
	case !promtext.ValidName(c.Name):
		return nil, errors.New("the name is made of letters, digits and _, and does not begin with a digit")
	case total != (kind == metric.Counter):
		return nil, errors.New("the name of a counter, and of nothing else, ends in _total")
	case c.Unit != "" && !strings.HasSuffix(base, "_"+c.Unit):
		return nil, fmt.Errorf("the name does not end in its unit: write %s_%s", base, c.Unit)
	case !filepath.IsAbs(c.File):
		return nil, fmt.Errorf("file %q is not a whole path", c.File)
	case c.PathLabel != "" && !strings.Contains(c.File, "*"):
		return nil, errors.New("path_label stands for the first * of file, which has none")
	case math.IsNaN(c.Offset) || math.IsInf(c.Offset, 0):
		return nil, errors.New("offset is no number")
	}
	if _, err := filepath.Match(c.File, ""); err != nil {
		return nil, fmt.Errorf("file %q is no pattern: a [ is not closed", c.File)
	}
	if c.Scale != nil {
		if r.scale = *c.Scale; r.scale == 0 || math.IsNaN(r.scale) || math.IsInf(r.scale, 0) {
			return nil, errors.New("scale is not a number other than 0")
		}
	}
	names := slices.Sorted(maps.Keys(c.Labels))
	if c.PathLabel != "" {
		if _, twice := c.Labels[c.PathLabel]; twice {
			return nil, fmt.Errorf("path_label %s is one of labels too", c.PathLabel)
		}
		names = append(names, c.PathLabel)
		slices.Sort(names)
	}
	for i, n := range names {
		if !promtext.ValidLabel(n) || slices.Contains(promtext.Reserved(), n) {
			return nil, fmt.Errorf("label %q cannot be used: letters, digits and _ only, and none of %s", n,
				strings.Join(promtext.Reserved(), ", "))
		}
		r.values = append(r.values, c.Labels[n])
		if n == c.PathLabel {
			r.at = i
		}
	}
	r.desc = &metric.Desc{Name: c.Name, Help: c.Help, Kind: kind, Unit: metric.Unit(c.Unit), Labels: names}
	return r, nil
}

// Name implements sensor.Sensor.
func (*Sensor) Name() string { return "custom" }

// Descs implements sensor.Sensor: there are no series about the sensor itself.
func (*Sensor) Descs() []*metric.Desc { return nil }

// Read implements sensor.Sensor. Everything is in ReadOwn.
func (*Sensor) Read(*metric.Batch) error { return nil }

// Close implements sensor.Sensor.
func (*Sensor) Close() error { return nil }

// ReadOwn implements sensor.OwnSource.
func (s *Sensor) ReadOwn(p *sensor.OwnPass) {
	for _, r := range s.readings {
		s.readNumber(r, p)
		r.cache.Sweep()
	}
}

func (s *Sensor) readNumber(r *configuredReading, p *sensor.OwnPass) {
	pattern := filepath.Join("/", s.root, r.File)
	in := p.Input(r.Name, nil)
	found := []string{pattern}
	if strings.ContainsAny(r.File, "*?[") {
		found, _ = filepath.Glob(pattern) // the pattern was checked by New
		switch {
		case len(found) == 0:
			p.Inputs[in].Err = fmt.Errorf("%s: there is no such file", r.File)
		case len(found) > 1 && r.at < 0:
			p.Inputs[in].Err = fmt.Errorf("%s stands for %d files; distinguish them with path_label", r.File, len(found))
			return
		case len(found) > maxFiles:
			p.Inputs[in].Err = fmt.Errorf("%s stands for more than %d files", r.File, maxFiles)
			found = found[:maxFiles]
		}
	}
	taken := map[string]bool{}
	for _, name := range found {
		v, err := s.readValue(r, name)
		if err != nil {
			if p.Inputs[in].Err == nil {
				p.Inputs[in].Err = fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		if math.IsNaN(v) {
			continue // the file reports that the value is unknown
		}
		if r.at >= 0 {
			star := matchedByStar(pattern, name)
			if taken[star] {
				p.Inputs[in].Err = fmt.Errorf("%s: several files have %s=%q", r.File, r.PathLabel, star)
				continue
			}
			taken[star] = true
			r.values[r.at] = star
		}
		p.Samples = append(p.Samples, sensor.OwnSample{Series: r.cache.Get(r.desc, r.values...), Value: v*r.scale + r.Offset,
			Origin: r.origin, Input: in})
	}
}

// readValue reads the number in a file.
func (s *Sensor) readValue(r *configuredReading, name string) (float64, error) {
	f, err := os.OpenFile(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, stripPath(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return 0, errors.New("it is no plain file")
	}
	buf := bytes.NewBuffer(s.buf[:0])
	if _, err := buf.ReadFrom(io.LimitReader(f, maxBytes+1)); err != nil {
		return 0, stripPath(err)
	}
	s.buf = buf.Bytes()[:0]
	if buf.Len() > maxBytes {
		return 0, fmt.Errorf("it is larger than %d MiB", maxBytes>>20)
	}
	if r.JSON != "" {
		return numberAtPath(buf.Bytes(), r.JSON)
	}
	return parseLeadingNumber(buf.Bytes())
}

// parseLeadingNumber parses the number at the start of a text.
func parseLeadingNumber(text []byte) (float64, error) {
	words := bytes.Fields(text[:min(len(text), 256)])
	if len(words) == 0 {
		return 0, errors.New("it is empty")
	}
	v, err := strconv.ParseFloat(string(words[0]), 64)
	if err != nil || bytes.ContainsRune(words[0], '_') {
		n, hex := strconv.ParseUint(string(words[0]), 0, 64)
		if hex != nil || !bytes.HasPrefix(words[0], []byte("0x")) {
			return 0, errors.New("it does not begin with a number")
		}
		return float64(n), nil
	}
	return v, nil
}

// numberAtPath returns the number at a path in a JSON text.
func numberAtPath(text []byte, place string) (float64, error) {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return 0, errors.New("it is not valid JSON")
	}
	for step := range strings.SplitSeq(place, ".") {
		ok := false
		switch at := v.(type) {
		case map[string]any:
			v, ok = at[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(at) {
				v, ok = at[i], true
			}
		}
		if !ok {
			return 0, fmt.Errorf("there is no %q on the way to %s", step, place)
		}
	}
	switch x := v.(type) {
	case float64:
		return x, nil
	case bool:
		if x {
			return 1, nil
		}
		return 0, nil
	case nil:
		return math.NaN(), nil
	case string:
		if f, err := strconv.ParseFloat(strings.TrimSpace(x), 64); err == nil {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%s is no number", place)
}

// matchedByStar returns the part of a path that the first * of a pattern matches.
func matchedByStar(pattern, name string) string {
	i := strings.IndexByte(pattern, '*')
	from := strings.LastIndexByte(pattern[:i], '/') + 1
	element, rest := name[from:], pattern[from:]
	if j := strings.IndexByte(element, '/'); j >= 0 {
		element = element[:j]
	}
	if j := strings.IndexByte(rest, '/'); j >= 0 {
		rest = rest[:j]
	}
	before, after, _ := strings.Cut(rest, "*")
	if strings.ContainsAny(before+after, "*?[") {
		return strings.ToValidUTF8(element, "?") // several * are ambiguous: the whole element
	}
	return strings.ToValidUTF8(strings.TrimSuffix(strings.TrimPrefix(element, before), after), "?")
}

// stripPath removes the path from an error that names it already.
func stripPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
