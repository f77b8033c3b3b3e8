// Package resctrl reads the counters of cache and memory bandwidth monitoring (Intel RDT, AMD QoS) from the mounted file system resctrl
// (Documentation/filesystems/resctrl.rst of the kernel). They are the bytes moved between the last-level caches and memory, and the
// occupied part of the caches, for each socket and each monitored group of threads.
//
//	mon_data/mon_L3_00/mbm_total_bytes              of the default group and the monitoring groups in it
//	mon_groups/NAME/{tasks,mon_data}                threads that are monitored separately
//	NAME/mon_data, NAME/mon_groups/NAME             the same of control groups
//
// Groups are only read. The kernel puts a thread's children into its group. DMA by devices is not counted. Bytes count from the opening
// of the sensor. The sensor does not mount resctrl, and is unavailable if it is not mounted. The test trees follow the kernel's
// documentation. A Sensor is used from one goroutine.
package resctrl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

var (
	trafficDesc = metric.NewDesc("reckon_node_cache_memory_bytes_total", metric.Counter, metric.Bytes, []string{"socket", "memory"},
		"Bytes that moved between the last-level caches of a socket and memory, by memory (local, remote), since the agent began; "+
			"without devices. By the monitoring of the processor (resctrl).")
	occupancyDesc = metric.NewDesc("reckon_node_cache_occupancy_bytes", metric.Gauge, metric.Bytes, []string{"socket"},
		"Bytes of the last-level caches of a socket that threads occupy, by the monitoring of the processor (resctrl).")
)

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc { return []*metric.Desc{trafficDesc, occupancyDesc} }

// Sensor reads resctrl of one machine.
type Sensor struct {
	dir     string
	domains []cacheDomain
	totals  []domainTotal // by domain
	sockets []socketTotal
	groups  []*group
	scanned bool // since the last Read
}

// domainTotal is the total traffic of one cache domain.
type domainTotal struct {
	before, pending [2]uint64 // sum at the last reading; counts of groups removed since: total, local
	known           [2]bool
	bytes           [2]uint64 // since the sensor was opened
}

// socketTotal holds the exported series of one socket.
type socketTotal struct {
	name          string
	local, remote *metric.Series
	occupancy     *metric.Series
}

// New finds resctrl of the machine with its file tree at root; "" or "/" is our own.
func New(root string) (*Sensor, error) {
	s := &Sensor{dir: sysfs.Path(root, "sys/fs/resctrl")}
	if _, err := os.Stat(filepath.Join(s.dir, "info")); err != nil {
		if !sysfs.CPUFlag(root, "cqm_llc") {
			return nil, sensor.Unavailable("the processor monitors neither caches nor memory bandwidth, or its resctrl is not mounted", "",
				err)
		}
		return nil, sensor.Unavailable("resctrl is not mounted", "mount -t resctrl resctrl /sys/fs/resctrl", err)
	}
	s.domains = listDomains(root, s.dir)
	if len(s.domains) == 0 {
		return nil, sensor.Unavailable("the processor monitors neither caches nor memory bandwidth", "",
			fmt.Errorf("find mon_data in %s", s.dir))
	}
	s.totals = make([]domainTotal, len(s.domains))
	for _, d := range s.domains {
		if d.socket != "" && !slices.ContainsFunc(s.sockets, func(k socketTotal) bool { return k.name == d.socket }) {
			s.sockets = append(s.sockets, socketTotal{d.socket, metric.NewSeries(trafficDesc, d.socket, "local"),
				metric.NewSeries(trafficDesc, d.socket, "remote"), metric.NewSeries(occupancyDesc, d.socket)})
		}
	}
	return s, s.readGroups()
}

// Name returns "resctrl".
func (s *Sensor) Name() string { return "resctrl" }

// Descs lists the series of the sensor.
func (s *Sensor) Descs() []*metric.Desc { return Descs() }

// readGroups reads all groups.
func (s *Sensor) readGroups() error {
	for _, g := range s.groups {
		g.fresh = false
	}
	removed, err := s.listGroups()
	if err != nil {
		return fmt.Errorf("list the groups of resctrl: %w", err)
	}
	for _, g := range s.groups {
		g.read(s.domains)
	}
	for i := range s.totals {
		s.totals[i].addIncrease(i, s.groups, removed)
	}
	s.scanned = true
	return nil
}

// addIncrease adds the traffic in a domain since the last reading. It uses the counts of existing control groups and
// the last counts of removed groups. The traffic between the last reading of a group and its removal is lost.
func (t *domainTotal) addIncrease(domain int, groups, removed []*group) {
	for k, of := range [2]func(*reading) value{func(r *reading) value { return r.total }, func(r *reading) value { return r.local }} {
		sum := value{ok: true}
		for _, g := range groups {
			if g.parent == nil {
				sum.add(of(&g.readings[domain]))
			}
		}
		for _, g := range removed {
			if g.parent == nil || !slices.Contains(removed, g.parent) {
				t.pending[k] += of(&g.readings[domain]).n
			}
		}
		if !sum.ok {
			continue
		}
		if now := sum.n + t.pending[k]; t.known[k] && now >= t.before[k] {
			t.bytes[k] += now - t.before[k]
		}
		t.before[k], t.pending[k], t.known[k] = sum.n, 0, true
	}
}

// Read appends the traffic and occupancy of each socket.
func (s *Sensor) Read(b *metric.Batch) error {
	if !s.scanned {
		if err := s.readGroups(); err != nil {
			return err
		}
	}
	s.scanned = false
	for i := range s.sockets {
		k := &s.sockets[i]
		var moved [2]uint64
		known, cache := [2]bool{true, true}, value{ok: true}
		for d := range s.domains {
			if s.domains[d].socket != k.name {
				continue
			}
			t := &s.totals[d]
			for j := range moved {
				moved[j], known[j] = moved[j]+t.bytes[j], known[j] && t.known[j]
			}
			for _, g := range s.groups {
				if g.parent == nil {
					cache.add(g.readings[d].cache)
				}
			}
		}
		if known[1] {
			b.Add(k.local, float64(moved[1]))
		}
		if known[0] && known[1] {
			b.Add(k.remote, float64(moved[0]-min(moved[0], moved[1])))
		}
		if cache.ok {
			b.Add(k.occupancy, float64(cache.n))
		}
	}
	return nil
}

// ReadMonitors appends the groups of threads with separate monitoring counters. These are the monitoring groups, and
// control groups that contain no monitoring group.
func (s *Sensor) ReadMonitors(p *sensor.MonitorPass) error {
	if err := s.readGroups(); err != nil {
		return err
	}
	for _, g := range s.groups {
		if g.dir == s.dir || g.children > 0 {
			continue
		}
		g.readTasks()
		if len(g.tasks) == 0 {
			continue
		}
		p.Groups = append(p.Groups, sensor.Monitored{Tasks: g.tasks, Bytes: g.bytes, Counted: g.moved, Fresh: g.fresh, Gap: g.gap,
			Cache: g.occupies.n, Occupies: g.occupies.ok})
	}
	return nil
}

// Close forgets the groups.
func (s *Sensor) Close() error {
	s.groups = nil
	return nil
}

var (
	_ sensor.Sensor        = (*Sensor)(nil)
	_ sensor.MonitorSource = (*Sensor)(nil)
)
