// Package topology determines the processor packages on which time was spent: the busy time of each
// processor package (/proc/stat, proc(5)), the packages that a process may run on
// (sched_getaffinity(2), which includes cpusets and needs no privilege), and the frequency of the
// processors that it may run on (scaling_cur_freq, Documentation/admin-guide/pm/cpufreq.rst).
//
// It matters if there is more than one package, or more than one kind of processor: otherwise
// [Open] returns sensor.ErrUnavailable. Busy time is in seconds, frequencies are relative to each
// other. A Reader is used from one goroutine and allocates nothing after Open.
package topology

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// maxPolicies is the maximum number of frequency domains that are read. Boards with several types of cores have a few
// domains. Servers have one for each thread, and reading all of them would take too long.
const maxPolicies = 16

// userHZ is the unit of times in /proc/stat. USER_HZ is 100 on every Linux.
const userHZ = 100

// Reader reads the processors of one machine.
type Reader struct {
	packageOf []int // by processor, -1 if there is none
	packages  int
	stat      *os.File
	buf       []byte
	last      []uint64 // by processor, in ticks
	busy      []float64
	primed    bool

	policies []frequencyPolicy
	policyOf []int // by processor, -1 unknown
	mean     float64
}

type frequencyPolicy struct {
	file *os.File
	cpus int
	freq float64
	ok   bool
}

// Open reads the layout of the machine with its file tree at root.
func Open(root string) (*Reader, error) {
	base := filepath.Join("/", root)
	r := new(Reader)
	dirs, _ := filepath.Glob(filepath.Join(base, "sys/devices/system/cpu/cpu[0-9]*"))
	for _, d := range dirs {
		cpu, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(d), "cpu"))
		if err != nil || cpu > 1<<16 {
			continue
		}
		for len(r.packageOf) <= cpu {
			r.packageOf = append(r.packageOf, -1)
			r.policyOf = append(r.policyOf, -1)
		}
		b, err := os.ReadFile(filepath.Join(d, "topology/physical_package_id"))
		if err != nil {
			continue // offline
		}
		if p, err := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil && p >= 0 && p < 64 {
			r.packageOf[cpu] = p
			r.packages = max(r.packages, p+1)
		}
	}
	r.openPolicies(base)
	if r.packages < 2 && len(r.policies) < 2 {
		return nil, errors.Join(sensor.Unavailable("one processor package of one kind: nothing to distinguish", "", nil), r.Close())
	}
	if r.packages > 1 {
		f, err := os.Open(filepath.Join(base, "proc/stat"))
		if err != nil {
			return nil, errors.Join(sensor.Unavailable("the time of each processor can not be read", "", err), r.Close())
		}
		r.stat = f
		r.buf = make([]byte, 4096+160*len(r.packageOf))
		r.last = make([]uint64, len(r.packageOf))
		r.busy = make([]float64, r.packages)
	}
	return r, nil
}

func (r *Reader) openPolicies(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, "sys/devices/system/cpu/cpufreq/policy[0-9]*"))
	if len(dirs) < 2 || len(dirs) > maxPolicies {
		return
	}
	for _, d := range dirs {
		related, err := os.ReadFile(filepath.Join(d, "related_cpus"))
		if err != nil {
			continue
		}
		f, err := os.Open(filepath.Join(d, "scaling_cur_freq"))
		if err != nil {
			continue
		}
		p := frequencyPolicy{file: f}
		for _, w := range strings.Fields(string(related)) {
			if cpu, err := strconv.Atoi(w); err == nil && cpu >= 0 && cpu < len(r.policyOf) {
				r.policyOf[cpu] = len(r.policies)
				p.cpus++
			}
		}
		r.policies = append(r.policies, p)
	}
}

// Packages returns the number of packages that Busy distinguishes, 0 if it does not.
func (r *Reader) Packages() int { return len(r.busy) }

// Busy returns the seconds that the processors of each package were busy since the last call, or nil if that is
// unknown. The slice is valid until the next call.
func (r *Reader) Busy() []float64 {
	if r.stat == nil {
		return nil
	}
	n, err := r.stat.ReadAt(r.buf, 0)
	if n == 0 || n == len(r.buf) || (err != nil && n == 0) {
		r.primed = false
		return nil
	}
	clear(r.busy)
	rest := r.buf[:n]
	for len(rest) > 0 {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		cpu, ticks, ok := parseCPULine(line)
		if !ok || cpu >= len(r.last) {
			continue
		}
		if p := r.packageOf[cpu]; p >= 0 && ticks > r.last[cpu] {
			r.busy[p] += float64(ticks-r.last[cpu]) / userHZ
		}
		r.last[cpu] = max(r.last[cpu], ticks)
	}
	if !r.primed {
		r.primed = true
		return nil
	}
	return r.busy
}

// parseCPULine parses a line such as "cpu3 user nice system idle iowait irq softirq steal guest guest_nice". It returns the processor
// number and its busy ticks. It excludes idle, iowait and steal. It also excludes guest time, because user already contains it.
func parseCPULine(line []byte) (cpu int, busy uint64, ok bool) {
	if !bytes.HasPrefix(line, []byte("cpu")) || len(line) < 5 || line[3] == ' ' {
		return 0, 0, false
	}
	at := 3
	n, digits := uint64(0), 0
	next := func() bool {
		n, digits = 0, 0
		for ; at < len(line) && line[at] >= '0' && line[at] <= '9'; at++ {
			if n > 1<<58 {
				return false
			}
			n = n*10 + uint64(line[at]-'0')
			digits++
		}
		for at < len(line) && line[at] == ' ' {
			at++
		}
		return digits > 0
	}
	if !next() || n > 1<<16 {
		return 0, 0, false
	}
	cpu = int(n)
	for i := range 7 {
		if !next() {
			return 0, 0, false
		}
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return cpu, busy, true
}

// Clocks reads the frequencies for the following calls of Place.
func (r *Reader) Clocks() {
	sum, cpus := 0.0, 0
	for i := range r.policies {
		p := &r.policies[i]
		p.ok = false
		var buf [24]byte
		n, _ := p.file.ReadAt(buf[:], 0)
		if v, ok := parseNumber(buf[:n]); ok && v > 0 {
			p.freq, p.ok = float64(v), true
			sum += p.freq * float64(p.cpus)
			cpus += p.cpus
		}
	}
	r.mean = 0
	if cpus > 0 {
		r.mean = sum / float64(cpus)
	}
}

// parseNumber parses a decimal number up to its end or the end of its line.
func parseNumber(b []byte) (v uint64, ok bool) {
	v, rest, ok := sysfs.Uint(b)
	return v, ok && (len(rest) == 0 || rest[0] == '\n')
}

// Place returns the packages that a process may run on, as one bit per package. A value of 0 means any or unknown.
// clock is the mean frequency of these processors relative to the mean of all processors, or 0 if unknown. ok is false if
// the process has ended.
func (r *Reader) Place(pid int) (packages uint64, clock float64, ok bool) {
	var set unix.CPUSet
	switch unix.SchedGetaffinity(pid, &set) {
	case nil:
		packages, clock = r.packagesOf(&set)
		return packages, clock, true
	case unix.ESRCH:
		return 0, 0, false
	}
	return 0, 0, true
}

func (r *Reader) packagesOf(set *unix.CPUSet) (packages uint64, clock float64) {
	all := true
	sum, n := 0.0, 0
	for cpu, p := range r.packageOf {
		if p < 0 {
			continue
		}
		if !set.IsSet(cpu) {
			all = false
			continue
		}
		packages |= 1 << p
		if i := r.policyOf[cpu]; i >= 0 && r.policies[i].ok {
			sum += r.policies[i].freq
			n++
		}
	}
	if all || packages == 1<<r.packages-1 {
		packages = 0
	}
	if n > 0 && r.mean > 0 {
		clock = sum / float64(n) / r.mean
	}
	return packages, clock
}

// Close closes the files.
func (r *Reader) Close() error {
	var errs []error
	if r.stat != nil {
		errs = append(errs, r.stat.Close())
	}
	for _, p := range r.policies {
		errs = append(errs, p.file.Close())
	}
	r.stat, r.policies = nil, nil
	return errors.Join(errs...)
}
