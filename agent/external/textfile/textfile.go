// Package textfile reads figures that scripts write to folders: files called *.prom in the
// Prometheus text format (package agent/external/promtext), like node_exporter's collector of that
// name, including its series node_textfile_*. A script writes to another file and renames it,
// so that a partial file is never read:
//
//	echo 'backup_seconds 812' > backup.tmp && mv backup.tmp backup.prom
//
// The owner of the file determines the owner of its figures. Figures of root, and of the user
// that the agent runs as, belong to the machine, or to the workload that the label workload
// names. Those of another user belong to that user, and can belong to workloads of the same
// user only. A file that was not written for [Folder.MaxAge] is left out, with the reason.
//
// A file that did not change is not read again. Links are followed if they belong to root or
// the agent's user. A Sensor is used from one goroutine.
package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reckon/agent/external/promtext"
	"reckon/metric"
	"reckon/sensor"
)

// Folder is a folder of files. The fields have the names of the configuration.
type Folder struct {
	Dir string `yaml:"dir"`
	// MaxAge is the maximum age of a file, by default 48 h, which exceeds the interval of a daily
	// job. A negative age means no limit.
	MaxAge time.Duration `yaml:"max_age"`
	// MaxSeries is the maximum number of series of one file, 1000 by default.
	MaxSeries int `yaml:"max_series"`
}

// Limits of a folder.
const (
	maxFiles = 256
	maxBytes = 4 << 20
)

var (
	mtimeDesc = metric.NewDesc("node_textfile_mtime_seconds", metric.Gauge, metric.Seconds, []string{"file"},
		"Unixtime mtime of textfiles successfully read.")
	errorDesc = metric.NewDesc("node_textfile_scrape_error", metric.Gauge, metric.None, nil,
		"1 if there was an error opening or reading a file, 0 otherwise.")
)

// Descs lists the series about the sensor itself.
func Descs() []*metric.Desc { return []*metric.Desc{mtimeDesc, errorDesc} }

// Sensor reads folders.
type Sensor struct {
	folders []Folder
	self    uint32
	now     func() time.Time
	files   map[string]*file
	round   uint64
	failed  *metric.Series
}

// file is the state of one file.
type file struct {
	page    *promtext.Page
	mtime   time.Time
	size    int64
	inode   uint64
	uid     uint32
	figures []promtext.Figure
	origins map[string]*sensor.Origin // by claim
	err     error
	series  *metric.Series
	round   uint64
}

// New opens folders. A missing one is not an error: it may be created later.
func New(folders []Folder) (*Sensor, error) {
	if len(folders) == 0 {
		return nil, sensor.Unavailable("no folder of text files is configured", "", nil)
	}
	s := &Sensor{folders: folders, self: uint32(os.Geteuid()), now: time.Now, files: map[string]*file{},
		failed: metric.NewSeries(errorDesc)}
	for i := range s.folders {
		f := &s.folders[i]
		if !filepath.IsAbs(f.Dir) {
			return nil, fmt.Errorf("the folder of text files %q is not given by its whole path", f.Dir)
		}
		if f.MaxAge == 0 {
			f.MaxAge = 48 * time.Hour
		}
	}
	return s, nil
}

// Name implements sensor.Sensor.
func (*Sensor) Name() string { return "textfile" }

// Descs implements sensor.Sensor.
func (*Sensor) Descs() []*metric.Desc { return Descs() }

// Read implements sensor.Sensor. Everything is in ReadOwn.
func (*Sensor) Read(*metric.Batch) error { return nil }

// Close implements sensor.Sensor.
func (*Sensor) Close() error { return nil }

// ReadOwn implements sensor.OwnSource.
func (s *Sensor) ReadOwn(p *sensor.OwnPass) {
	s.round++
	bad := 0.0
	for i := range s.folders {
		if err := s.readFolder(&s.folders[i], p); err != nil {
			p.Input(s.folders[i].Dir, err)
		}
	}
	for name, f := range s.files {
		if f.round != s.round {
			delete(s.files, name)
		}
	}
	for i := range p.Inputs {
		if p.Inputs[i].Err != nil {
			bad = 1
		}
	}
	p.Samples = append(p.Samples, sensor.OwnSample{Series: s.failed, Value: bad})
}

func (s *Sensor) readFolder(c *Folder, p *sensor.OwnPass) error {
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no such folder; make it, or leave it out of the configuration")
	}
	if err != nil {
		return fmt.Errorf("it can not be listed: %w", stripPath(err))
	}
	n := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".prom") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if n++; n > maxFiles {
			return fmt.Errorf("it has more than %d files *.prom; those after %s are left out", maxFiles, e.Name())
		}
		s.readFile(c, filepath.Join(c.Dir, e.Name()), p)
	}
	return nil
}

func (s *Sensor) readFile(c *Folder, name string, p *sensor.OwnPass) {
	f := s.files[name]
	if f == nil {
		f = &file{
			page:   promtext.NewPage(promtext.Rules{MaxSeries: c.MaxSeries, Claims: true}),
			series: metric.NewSeries(mtimeDesc, name), origins: map[string]*sensor.Origin{},
		}
		s.files[name] = f
	}
	f.round = s.round
	if err := s.rereadChanged(f, name); err != nil {
		gone := errors.Is(err, fs.ErrNotExist)
		if to, bad := os.Readlink(name); gone && bad == nil {
			p.Input(name, fmt.Errorf("it is a link to %s, which does not exist", to))
		} else if !gone { // otherwise it was deleted while the folder was listed
			p.Input(name, stripPath(err))
		}
		*f = file{page: f.page, series: f.series, origins: f.origins, round: f.round}
		return
	}
	if f.err != nil {
		p.Input(name, f.err)
		return
	}
	if age := s.now().Sub(f.mtime); c.MaxAge > 0 && age > c.MaxAge {
		p.Input(name, fmt.Errorf("it was last written %s, more than %v ago; write it again, remove it, or allow more with max_age",
			f.mtime.UTC().Format(time.RFC3339), c.MaxAge))
		return
	}
	in := p.Input(name, nil)
	for i := range f.figures {
		g := &f.figures[i]
		p.Samples = append(p.Samples, sensor.OwnSample{Series: g.Series, Value: g.Value, Origin: s.fileOrigin(f, g.Claim), Input: in})
	}
	p.Samples = append(p.Samples, sensor.OwnSample{Series: f.series, Value: float64(f.mtime.UnixMilli()) / 1000})
}

// fileOrigin returns the origin of the figures of a file.
func (s *Sensor) fileOrigin(f *file, claim string) *sensor.Origin {
	o := f.origins[claim]
	trusted := f.uid == 0 || f.uid == s.self
	if o == nil || o.UID != f.uid || o.Trusted != trusted {
		o = &sensor.Origin{Workload: claim, UID: f.uid, HasUID: true, Trusted: trusted}
		f.origins[claim] = o
	}
	return o
}

// rereadChanged reads a file if it changed since it was last read.
func (s *Sensor) rereadChanged(f *file, name string) error {
	h, err := s.openTrusted(name)
	if err != nil {
		return err
	}
	defer h.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(h.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it is no plain file")
	}
	mtime := time.Unix(st.Mtim.Unix())
	if f.size == st.Size && f.mtime.Equal(mtime) && f.inode == st.Ino && f.uid == st.Uid {
		return nil
	}
	f.size, f.mtime, f.inode, f.uid = st.Size, mtime, st.Ino, st.Uid
	f.figures, f.err = nil, nil
	if st.Size > maxBytes {
		f.err = fmt.Errorf("it is larger than %d MiB", maxBytes>>20)
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(h, maxBytes+1))
	if err != nil {
		return err
	}
	f.figures, f.err = f.page.Read(text)
	clear(f.origins)
	return nil
}

// openTrusted opens a file. It follows a link only if root or this program's user owns it, because another user's
// link could point to a file that only this program may read.
func (s *Sensor) openTrusted(name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK // opening a named pipe does not block
	h, err := os.OpenFile(name, flags|unix.O_NOFOLLOW, 0)
	if !errors.Is(err, unix.ELOOP) {
		return h, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return nil, err
	}
	if st.Uid != 0 && st.Uid != s.self {
		return nil, errors.New("it is a link that another user made; links are followed where root or the agent's user made them")
	}
	return os.OpenFile(name, flags, 0)
}

// stripPath returns the error without the path, because the input already has the path as its name.
func stripPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
