// Package recording keeps what a machine looked like: the readings of the sensors
// and the raw files of the kernel behind them, pass by pass, in one file that can be
// played back (sensor/replay), unpacked into a tree for tests, or sent with a bug
// report. doc/recording-format.md describes the file, so that others can read it.
//
// A recording is a gzipped tar file. Each pass ends with its readings and a gzip
// flush, so that a recording that was cut off anywhere still gives every complete
// pass, and then an error that matches [io.ErrUnexpectedEOF].
//
// A recording comes from a stranger: the reader bounds every size it allocates
// ([Limits]) and refuses names that leave the tree. Command lines and environments
// are never recorded; see [Files] for what is, and [Scrubber] for names.
//
// Units are those of the records in package sensor. The types of this package
// serve one goroutine at a time.
package recording

import (
	"errors"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// Version is the version of the format that is written. A reader refuses newer ones.
const Version = 1

// ErrFormat is what errors.Is finds in an error about something that is no recording,
// or a broken one.
var ErrFormat = errors.New("not a valid recording")

// Meta describes the machine and the recording.
type Meta struct {
	Format  int    `json:"format"`
	Reckon  string `json:"reckon,omitempty"` // version that wrote it
	Node    string `json:"node"`
	Kernel  string `json:"kernel,omitempty"` // release
	Machine string `json:"machine,omitempty"`
	// Booted is when the machine booted; records count nanoseconds from there.
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

// PassData is one pass. What was not read is nil.
type PassData struct {
	Time    time.Time
	Tasks   *sensor.Pass
	Machine *sensor.Machine
	// About says where processes belong that no earlier pass told of, by process id.
	About map[int32]About
	// Paths are the cgroups behind numbers that no earlier pass told of.
	Paths map[uint64][]sensor.CgroupPath
	// Users are the names of users that no earlier pass told of.
	Users   map[uint32]string
	Cgroups []Cgroup
	Sensors []Reading
	// Errors are what could not be read, by the name of the source.
	Errors map[string]string
	Files  []File
}

// About is what identifies a process, apart from its record.
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

// Reading is what one sensor appended to its batch.
type Reading struct {
	Sensor  string
	Samples []metric.Sample
	Error   string // of Read, empty if it went well
}

// File is a regular file of the machine, or a symbolic link if Link is not empty.
// Path is relative to the root and clean.
type File struct {
	Path string
	Data []byte
	Link string
}

// Limits bound what a reader takes in.
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
