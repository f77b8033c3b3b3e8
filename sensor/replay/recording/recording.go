// Package recording stores the state of a machine over time: the readings of the sensors
// and the underlying raw files of the kernel, pass by pass, in one file that can be
// played back (sensor/replay), unpacked into a tree for tests, or sent with a bug report.
// doc/recording-format.md describes the file, so that others can read it.
//
// A recording is a gzipped tar file. Each pass ends with its readings and a gzip flush,
// so that a truncated recording still yields every complete pass, and then an error that
// matches [io.ErrUnexpectedEOF].
//
// A recording is untrusted input: the reader limits every allocation ([Limits]) and
// refuses names that leave the tree. Command lines and environments are never recorded;
// see [Files] for the files that are, and [Scrubber] for names.
//
// Units are the units of the records in package sensor. The types of this package are used
// from one goroutine at a time.
package recording

import (
	"errors"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// Version is the version of the written format. A reader refuses newer versions.
const Version = 1

// ErrFormat reports, by errors.Is, a file that is not a recording, or a corrupt one.
var ErrFormat = errors.New("not a valid recording")

// Meta describes the machine and the recording.
type Meta struct {
	Format  int    `json:"format"`
	Reckon  string `json:"reckon,omitempty"` // version that wrote it
	Node    string `json:"node"`
	Kernel  string `json:"kernel,omitempty"` // release
	Machine string `json:"machine,omitempty"`
	// Booted is the time when the machine booted; records count nanoseconds from there.
	Booted   time.Time `json:"booted"`
	Recorded time.Time `json:"recorded"`
	Interval float64   `json:"interval_seconds"`
	// Source and Exits name the task source and the exit source that were in use.
	Source   string `json:"source,omitempty"`
	Exits    string `json:"exits,omitempty"`
	Scrubbed bool   `json:"scrubbed"`
	// Unavailable are the sensors that the machine did not have, with the reason.
	Unavailable map[string]string `json:"unavailable,omitempty"`
}

// PassData is one pass. Unread parts are nil.
type PassData struct {
	Time    time.Time
	Tasks   *sensor.Pass
	Machine *sensor.Machine
	// About holds the identity of processes, by process id, that no earlier pass contained.
	About map[int32]About
	// Paths are the cgroups of cgroup numbers that no earlier pass contained.
	Paths map[uint64][]sensor.CgroupPath
	// Users are the names of users that no earlier pass contained.
	Users   map[uint32]string
	Cgroups []Cgroup
	Sensors []Reading
	// Errors are the errors of sources, by their names.
	Errors map[string]string
	Files  []File
}

// About is the identity of a process, apart from its record.
type About struct {
	Cgroups []sensor.CgroupPath
	// LoginSession is the audit session, nil when there is none.
	LoginSession *uint32
	// Env holds the few variables of [EnvKeys] that are set and are numbers.
	Env map[string]string
}

// Cgroup is the reading of one control group, which has one path in each hierarchy.
type Cgroup struct {
	Paths   []sensor.CgroupPath
	Figures sensor.Cgroup
}

// Reading is the batch of one sensor.
type Reading struct {
	Sensor  string
	Samples []metric.Sample
	Error   string          // of Read, empty if it succeeded
	GPU     *sensor.GPUPass // GPU is the pass of GPUs and their users; nil if none was read.
}

// File is a regular file of the recorded machine, or a symbolic link if Link is not empty. Path is clean and relative
// to the root of the machine's file tree.
type File struct {
	Path string
	Data []byte
	Link string
}

// Limits limit the input of a reader.
type Limits struct {
	Readings int64 // bytes of the readings of a pass
	File     int64 // bytes of one raw file
	Pass     int64 // bytes of all raw files of a pass
	Files    int   // raw files of a pass
	Total    int64 // bytes of the whole recording, unpacked
}

// DefaultLimits fit a node with tens of thousands of processes.
func DefaultLimits() Limits {
	return Limits{Readings: 64 << 20, File: 1 << 20, Pass: 256 << 20, Files: 500_000, Total: 16 << 30}
}
