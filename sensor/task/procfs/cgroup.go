package procfs

import (
	"bytes"
	"hash/maphash"

	"reckon/internal/cgpath"
	"reckon/internal/sysfs"
	"reckon/sensor"
)

// parseCgroups parses the text of /proc/PID/cgroup (cgroups(7)), which has one line per hierarchy:
//
//	4:memory:/slurm/uid_1000/job_7
//	0::/system.slice/ssh.service
//
// A path may contain colons. It cannot contain a newline, because the kernel refuses such names (cgroup_mkdir). A path
// that begins with /.. lies outside our cgroup namespace, and origin makes it absolute. In the unified hierarchy, the
// kernel adds " (deleted)" for a zombie in a removed cgroup, which is cut off. Invalid lines are skipped.
func parseCgroups(b []byte, origin cgpath.Origin) []sensor.CgroupPath {
	var paths []sensor.CgroupPath
	for len(b) > 0 {
		var l []byte
		l, b = sysfs.Line(b)
		id, l, ok := bytes.Cut(l, []byte{':'})
		if _, isNumber := sysfs.Unsigned(id); !ok || !isNumber {
			continue
		}
		controllers, path, ok := bytes.Cut(l, []byte{':'})
		if !ok || len(path) == 0 || path[0] != '/' {
			continue
		}
		if len(controllers) == 0 {
			path = bytes.TrimSuffix(path, []byte(" (deleted)"))
		}
		c := sensor.CgroupPath{Controllers: string(controllers), Path: string(path)}
		c.Path = origin.Absolute(c.Controllers, c.Path)
		paths = append(paths, c)
	}
	return paths
}

// cgroupSet is a set of control groups that processes belong to.
type cgroupSet struct {
	paths []sensor.CgroupPath
	pass  uint64 // pass in which a process was last read to be in it
}

// keptPasses is the number of passes that a set of cgroups is kept after its last process was read. It is longer than
// the interval at which every process is read again.
const keptPasses = 600

// cgroupSetNumber returns the number of the set of cgroups in text and stores its paths. It allocates only for new sets.
func (s *Source) cgroupSetNumber(text []byte) uint64 {
	n := maphash.Bytes(s.seed, text)
	if n == 0 {
		n = 1 // 0 is unknown
	}
	set := s.cgroups[n]
	if set == nil {
		set = &cgroupSet{paths: parseCgroups(text, s.origin)}
		s.cgroups[n] = set
	}
	set.pass = s.passes
	return n
}

// forgetCgroups drops the sets of cgroups that no living process is in.
func (s *Source) forgetCgroups() {
	for _, e := range s.entries {
		if set := s.cgroups[e.p.Cgroup]; set != nil {
			set.pass = s.passes
		}
	}
	for n, set := range s.cgroups {
		if set.pass+keptPasses < s.passes {
			delete(s.cgroups, n)
		}
	}
}

// CgroupPaths returns the cgroups behind the number in [sensor.Process.Cgroup].
func (s *Source) CgroupPaths(n uint64) (paths []sensor.CgroupPath, ok bool) {
	set, ok := s.cgroups[n]
	if !ok {
		return nil, false
	}
	return set.paths, true
}
