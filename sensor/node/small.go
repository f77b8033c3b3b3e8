package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

var pageSize = uint64(os.Getpagesize())

// Load is the load average.
type Load struct {
	text   *kernelFile
	descs  []*metric.Desc
	series []*metric.Series
}

// NewLoad opens /proc/loadavg.
func NewLoad(root string) (*Load, error) {
	t, err := openFile(root, "proc/loadavg")
	if err != nil {
		return nil, err
	}
	l := &Load{text: t, descs: []*metric.Desc{
		gauge("node_load1", "1m load average.", metric.None), gauge("node_load5", "5m load average.", metric.None),
		gauge("node_load15", "15m load average.", metric.None),
	}}
	l.series = newSeries(l.descs)
	return l, nil
}

// Name returns "load".
func (l *Load) Name() string { return "load" }

// Descs lists the three averages.
func (l *Load) Descs() []*metric.Desc { return l.descs }

// Close closes the file.
func (l *Load) Close() error { return l.text.Close() }

// Read appends the averages.
func (l *Load) Read(b *metric.Batch) error {
	t, err := l.text.read()
	if err != nil {
		return err
	}
	v, ok := parseLoad(t)
	if !ok {
		return l.text.malformedError("three averages wanted")
	}
	for i := range v {
		b.Add(l.series[i], v[i])
	}
	return nil
}

// parseLoad reads "0.53 0.74 0.67 1/234 12345"; the kernel writes two digits.
func parseLoad(t []byte) (v [3]float64, ok bool) {
	for i := range v {
		var w []byte
		w, t = sysfs.Field(t)
		whole, part, found := bytes.Cut(w, []byte{'.'})
		a, ok1 := sysfs.Unsigned(whole)
		c, ok2 := sysfs.Unsigned(part)
		if !found || !ok1 || !ok2 || len(part) != 2 {
			return v, false
		}
		v[i] = float64(a) + float64(c)/100
	}
	return v, true
}

// Clock is the time of the machine.
type Clock struct {
	descs  []*metric.Desc
	series *metric.Series
}

// NewClock always succeeds.
func NewClock() *Clock {
	d := gauge("node_time_seconds", "System time in seconds since epoch (1970).", metric.Seconds)
	return &Clock{descs: []*metric.Desc{d}, series: metric.NewSeries(d)}
}

// Name returns "time".
func (c *Clock) Name() string { return "time" }

// Descs lists the time.
func (c *Clock) Descs() []*metric.Desc { return c.descs }

// Close does nothing.
func (c *Clock) Close() error { return nil }

// Read appends the time.
func (c *Clock) Read(b *metric.Batch) error {
	b.Add(c.series, float64(time.Now().UnixNano())/1e9)
	return nil
}

// FileFD is the number of open files of the machine.
type FileFD struct {
	text   *kernelFile
	descs  []*metric.Desc
	series []*metric.Series
}

// NewFileFD opens /proc/sys/fs/file-nr.
func NewFileFD(root string) (*FileFD, error) {
	t, err := openFile(root, "proc/sys/fs/file-nr")
	if err != nil {
		return nil, err
	}
	f := &FileFD{text: t, descs: []*metric.Desc{
		gauge("node_filefd_allocated", "File descriptor statistics: allocated.", metric.None),
		gauge("node_filefd_maximum", "File descriptor statistics: maximum.", metric.None),
	}}
	f.series = newSeries(f.descs)
	return f, nil
}

// Name returns "filefd".
func (f *FileFD) Name() string { return "filefd" }

// Descs lists the two figures.
func (f *FileFD) Descs() []*metric.Desc { return f.descs }

// Close closes the file.
func (f *FileFD) Close() error { return f.text.Close() }

// Read appends the figures: allocated, free (always 0 since 2.6), maximum.
func (f *FileFD) Read(b *metric.Batch) error {
	t, err := f.text.read()
	if err != nil {
		return err
	}
	var v [3]uint64
	if parseNumbers(t, v[:]) != 3 {
		return f.text.malformedError("three numbers wanted")
	}
	b.Add(f.series[0], float64(v[0]))
	b.Add(f.series[1], float64(v[2]))
	return nil
}

// Info is facts about the machine that do not change while it runs, as series of value 1.
type Info struct {
	name   string
	descs  []*metric.Desc
	series []*metric.Series
	values []float64
}

// Name returns "uname" or "os".
func (i *Info) Name() string { return i.name }

// Descs lists the facts.
func (i *Info) Descs() []*metric.Desc { return i.descs }

// Close does nothing.
func (i *Info) Close() error { return nil }

// Read appends the facts.
func (i *Info) Read(b *metric.Batch) error {
	for k, s := range i.series {
		b.Add(s, i.values[k])
	}
	return nil
}

func (i *Info) addFact(d *metric.Desc, v float64, values ...string) {
	i.descs = append(i.descs, d)
	i.series = append(i.series, metric.NewSeries(d, values...))
	i.values = append(i.values, v)
}

// NewUname reads the data of uname(2), from /proc/sys/kernel if it is not about our own machine.
func NewUname(root string) (*Info, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, err
	}
	read := func(name string, own []byte) (string, error) {
		if root == "" || root == "/" {
			return labelValue(bytes.TrimRight(own, "\x00")), nil
		}
		t, err := openFile(root, "proc/sys/kernel/"+name)
		if err != nil {
			return "", err
		}
		defer t.Close()
		b, err := t.read()
		return labelValue(bytes.TrimSpace(b)), err
	}
	var v [5]string
	var errs error
	for i, f := range []struct {
		name string
		own  []byte
	}{
		{"ostype", u.Sysname[:]}, {"osrelease", u.Release[:]}, {"version", u.Version[:]},
		{"hostname", u.Nodename[:]}, {"domainname", u.Domainname[:]},
	} {
		var err error
		v[i], err = read(f.name, f.own)
		errs = errors.Join(errs, err)
	}
	if errs != nil {
		return nil, errs
	}
	i := &Info{name: "uname"}
	i.addFact(gauge("node_uname_info", "Labeled system information as provided by the uname system call.", metric.None,
		"sysname", "release", "version", "machine", "nodename", "domainname"),
		1, v[0], v[1], v[2], labelValue(bytes.TrimRight(u.Machine[:], "\x00")), v[3], v[4])
	return i, nil
}

var osLabels = []string{
	"build_id", "id", "id_like", "image_id", "image_version", "name", "pretty_name", "variant", "variant_id",
	"version", "version_codename", "version_id",
}

// NewOS reads os-release(5).
func NewOS(root string) (*Info, error) {
	if root == "" {
		root = "/"
	}
	var text []byte
	var err error
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		if text, err = os.ReadFile(filepath.Join(root, name)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, sensor.Unavailable("the system does not describe it", "", err)
	}
	facts := parseOSRelease(text)
	values := make([]string, len(osLabels))
	for i, l := range osLabels {
		values[i] = facts[strings.ToUpper(l)]
	}
	i := &Info{name: "os"}
	i.addFact(gauge("node_os_info", "A metric with a constant '1' value labeled by the fields of os-release.", metric.None, osLabels...), 1,
		values...)
	if v, ok := majorMinor(facts["VERSION_ID"]); ok {
		i.addFact(gauge("node_os_version", "Metric containing the major.minor part of the OS version.", metric.None, "id", "id_like",
			"name"), v, facts["ID"], facts["ID_LIKE"], facts["NAME"])
	}
	return i, nil
}

// parseOSRelease reads shell assignments, with or without quotes.
func parseOSRelease(t []byte) map[string]string {
	facts := make(map[string]string)
	for l := range bytes.Lines(t) {
		key, value, ok := strings.Cut(strings.TrimSpace(labelValue(l)), "=")
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			quote := value[0]
			value = value[1 : n-1]
			if quote == '"' {
				value = unquote.Replace(value)
			}
		}
		facts[key] = value
	}
	return facts
}

var unquote = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`")

// majorMinor reads the first two parts of a version as a number, 22.04.1 as 22.04.
func majorMinor(version string) (float64, bool) {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if _, ok := sysfs.Unsigned([]byte(major)); !ok {
		return 0, false
	}
	if _, ok := sysfs.Unsigned([]byte(minor)); ok {
		major = fmt.Sprintf("%s.%s", major, minor)
	}
	v, err := strconv.ParseFloat(major, 64)
	return v, err == nil
}
