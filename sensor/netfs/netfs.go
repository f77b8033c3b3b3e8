// Package netfs reads the statistics of mounted network file systems: NFS from /proc/self/mountstats, of each mount and operation
// (nfs_show_stats and rpc_print_iostats of the kernel), and Lustre from the statistics of its client (llite.*.stats; in debugfs since
// 2.12, readable for root).
//
// The file systems themselves are never accessed, so that an unresponsive server blocks nothing. Mounts of one file system share its
// statistics and count once. Most machines have none, but machines of sites with an automounter have thousands. The first [maxSources]
// have their own series, and the rest are combined in source "other". A pass that takes long is done less often, so that it costs at most
// 0.2 % of a core.
//
// Bytes are those sent to and received from servers, without the page cache. The seconds of an operation last from the call until its
// answer, and those of the server from sending until the answer. Both are sums; divide them by the increase of operations.
//
// A Sensor is used from one goroutine.
package netfs

import (
	"errors"
	"fmt"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

const (
	// maxSources is the number of file systems with their own series.
	maxSources = 64
	// maxMounts limits the number of remembered mounts.
	maxMounts = 20_000
	// pauseFactor is the wait before the next pass in multiples of the length of this one.
	pauseFactor = 500
	// otherSource is the source that stands for all sources beyond maxSources.
	otherSource = "other"
)

// Counts of a mount in the order of series.
const (
	readBytes = iota
	writeBytes
	readOperations // and write, metadata
	_
	_
	readMicros
	_
	_
	readServerMicros
	_
	_
	retransmissions
	timeouts
	countFields
)

// The kinds of operations.
const (
	opRead = iota
	opWrite
	opMetadata
	opKinds
)

var (
	directions = [...]string{"read", "write"}
	operations = [opKinds]string{"read", "write", "metadata"}
)

func desc(name, help string, unit metric.Unit, labels ...string) *metric.Desc {
	return &metric.Desc{Name: "reckon_mount_" + name, Help: help, Kind: metric.Counter, Unit: unit,
		Labels: append([]string{"type", "source"}, labels...)}
}

var (
	bytesDesc = desc("bytes_total",
		"Bytes read from and written to servers of a network file system, by direction; what the page cache served is not included.",
		metric.Bytes, "direction")
	opsDesc = desc("operations_total", "Operations on a network file system: read, write, or metadata for all others.", metric.None,
		"operation")
	timeDesc = desc("operation_seconds_total", "Time of all operations on a network file system, from the call until the answer.",
		metric.Seconds, "operation")
	serverDesc = desc("server_seconds_total", "Time of all operations on a network file system, from sending the request until the "+
		"answer.",
		metric.Seconds, "operation")
	againDesc = desc("retransmissions_total", "Requests to a network file system that were sent again.", metric.None)
	lateDesc  = desc("timeouts_total", "Requests to a network file system that ran into their time limit (major timeouts).", metric.None)
)

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc {
	return []*metric.Desc{bytesDesc, opsDesc, timeDesc, serverDesc, againDesc, lateDesc}
}

// Sensor reads all network file systems of a machine.
type Sensor struct {
	nfs     *nfs
	lustre  *lustre
	mounts  map[string]*mountCounts
	sources map[sourceName]*sourceSeries
	order   []*sourceSeries
	round   uint64
	left    int // mounts beyond maxMounts
	err     error
	next    time.Time
	now     func() time.Time
}

// sourceName identifies a file system.
type sourceName struct{ kind, source string }

// mountCounts holds the last counts of one mount.
type mountCounts struct {
	last  [countFields]uint64
	to    *sourceSeries
	round uint64
}

// sourceSeries holds the series of one file system, or of all others together.
type sourceSeries struct {
	sourceName
	total  [countFields]uint64
	has    [countFields]bool
	series [countFields]*metric.Series
	mounts int
}

// New looks for network file systems below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	s := &Sensor{mounts: make(map[string]*mountCounts), sources: make(map[sourceName]*sourceSeries), now: time.Now}
	var err error
	if s.nfs, err = openNFS(root); err != nil {
		return nil, err
	}
	s.lustre = newLustre(root)
	if err := s.readAll(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if len(s.mounts) == 0 {
		err := fmt.Errorf("no mount of NFS or Lustre in %s", s.nfs.path)
		return nil, errors.Join(sensor.Unavailable("no network file system is mounted", "", err), s.Close())
	}
	s.next = time.Time{}
	return s, nil
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "netfs" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// Read appends the totals of each file system, as of the last pass.
func (s *Sensor) Read(b *metric.Batch) error {
	if begin := s.now(); !begin.Before(s.next) {
		s.err = s.readAll()
		s.next = begin.Add(pauseFactor * s.now().Sub(begin))
	}
	for _, x := range s.order {
		for i, v := range x.total {
			if !x.has[i] {
				continue
			}
			if i >= readMicros && i < retransmissions {
				b.Add(x.series[i], float64(v)/1e6)
			} else {
				b.Add(x.series[i], float64(v))
			}
		}
	}
	return s.err
}

// readAll reads everything once.
func (s *Sensor) readAll() error {
	s.round++
	s.left = 0
	err := s.nfs.eachMount(s.addCounts)
	err = errors.Join(err, s.lustre.eachMount(s.now(), s.addCounts))
	if err != nil {
		return err // mounts that could not be read may still exist
	}
	for key, m := range s.mounts {
		if m.round == s.round {
			continue
		}
		delete(s.mounts, key)
		if m.to.mounts--; m.to.mounts == 0 && m.to.source != otherSource {
			s.endSource(m.to)
		}
	}
	if s.left > 0 {
		return fmt.Errorf("read %d mounts of network file systems, %d more are not read", maxMounts, s.left)
	}
	return nil
}

// addCounts adds the counts of a mount since the previous pass. Statistics restart when it is mounted again or they are cleared.
func (s *Sensor) addCounts(key []byte, kind string, from func() string, now *[countFields]uint64, has *[countFields]bool) {
	m := s.mounts[string(key)]
	if m == nil {
		if len(s.mounts) >= maxMounts {
			s.left++
			return
		}
		m = &mountCounts{to: s.sourceFor(sourceName{kind, from()})}
		m.to.mounts++
		s.mounts[string(key)] = m
	}
	m.round = s.round
	for i, v := range now {
		if !has[i] {
			continue
		}
		m.to.has[i] = true
		if v >= m.last[i] {
			m.to.total[i] += v - m.last[i]
		} else {
			m.to.total[i] += v
		}
		m.last[i] = v
	}
}

// sourceFor returns the series of a file system. If there are too many, it returns the common series of the remaining ones of its kind.
func (s *Sensor) sourceFor(n sourceName) *sourceSeries {
	if x := s.sources[n]; x != nil {
		return x
	}
	if len(s.sources) >= maxSources {
		n.source = otherSource
		if x := s.sources[n]; x != nil {
			return x
		}
	}
	x := &sourceSeries{sourceName: n}
	for i, d := range directions {
		x.series[readBytes+i] = metric.NewSeries(bytesDesc, n.kind, n.source, d)
	}
	for i, o := range operations {
		x.series[readOperations+i] = metric.NewSeries(opsDesc, n.kind, n.source, o)
		x.series[readMicros+i] = metric.NewSeries(timeDesc, n.kind, n.source, o)
		x.series[readServerMicros+i] = metric.NewSeries(serverDesc, n.kind, n.source, o)
	}
	x.series[retransmissions] = metric.NewSeries(againDesc, n.kind, n.source)
	x.series[timeouts] = metric.NewSeries(lateDesc, n.kind, n.source)
	s.sources[n] = x
	s.order = append(s.order, x)
	return x
}

func (s *Sensor) endSource(x *sourceSeries) {
	delete(s.sources, x.sourceName)
	for i := range s.order {
		if s.order[i] == x {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

// Close closes the file.
func (s *Sensor) Close() error { return s.nfs.close() }
