// Package node measures the machine as a whole under the names, labels and types of the Prometheus
// node_exporter (https://github.com/prometheus/node_exporter), with its default exclusions, so that
// dashboards and alerts made for it work here. Each group of figures is a sensor of its own, with
// its own availability.
//
// Sources: Documentation/filesystems/proc.rst, admin-guide/iostats.rst and accounting/psi.rst of the
// kernel. Figures are in base units: seconds, bytes.
//
// It differs from node_exporter as follows: a network file system that does not respond blocks
// nothing (see [NewFilesystem]); the fields of /proc/vmstat, untyped there, are counters here. A
// series that is absent there is absent here.
//
// The files stay open and are read in place: nothing is allocated after warm-up. A sensor is used
// from one goroutine.
package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// kernelFile is a kernel file that is read repeatedly from its beginning.
type kernelFile struct {
	file *os.File
	buf  []byte
}

// openFile opens a file below root. It returns [sensor.ErrUnavailable] if the file does not exist
// or is not readable.
func openFile(root, name string) (*kernelFile, error) {
	if root == "" {
		root = "/"
	}
	f, err := os.Open(filepath.Join(root, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, sensor.Unavailable("this kernel or file tree does not have it", "", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, sensor.Unavailable("no permission", "run as root", err)
	case err != nil:
		return nil, err
	}
	return &kernelFile{file: f, buf: make([]byte, 4096)}, nil
}

// openNet opens a file in /proc/net of the machine. /proc/net shows the network of the reader. If root is the tree of
// another machine or host, openNet therefore reads /proc/1/net.
func openNet(root, name string) (*kernelFile, error) {
	if root != "" && root != "/" {
		if t, err := openFile(root, "proc/1/net/"+name); err == nil {
			return t, nil
		}
	}
	return openFile(root, "proc/net/"+name)
}

// read returns the content, which is valid until the next call.
func (t *kernelFile) read() ([]byte, error) {
	for n := 0; ; {
		m, err := t.file.ReadAt(t.buf[n:], int64(n))
		n += m
		if err == io.EOF {
			return t.buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
		t.buf = append(t.buf, make([]byte, len(t.buf))...)
	}
}

// Close closes the file. Calling it again does nothing.
func (t *kernelFile) Close() error {
	if t == nil || t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	return err
}

// malformedError returns an error for unexpected content of a kernel file.
func (t *kernelFile) malformedError(part string) error {
	return fmt.Errorf("read %s: malformed: %s", t.file.Name(), part)
}

func gauge(name, help string, unit metric.Unit, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Gauge, Unit: unit, Labels: labels}
}

func counter(name, help string, unit metric.Unit, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Counter, Unit: unit, Labels: labels}
}

// newSeries makes one series without labels for each description.
func newSeries(descs []*metric.Desc) []*metric.Series {
	out := make([]*metric.Series, len(descs))
	for i, d := range descs {
		out[i] = metric.NewSeries(d)
	}
	return out
}

// parseNumbers parses the words of a line into f and returns how many there are.
func parseNumbers(l []byte, f []uint64) int {
	for i := range f {
		var w []byte
		w, l = sysfs.Field(l)
		v, ok := sysfs.Unsigned(w)
		if !ok {
			return i
		}
		f[i] = v
	}
	return len(f)
}

// labelValue makes a name fit for a label.
func labelValue(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
