// Package probe measures the processes of one pod from inside. It runs in a container beside the application, in the
// same process namespace, as an unprivileged user and without any interface of Kubernetes. It reads /proc only
// (proc_pid_stat(5), proc_pid_io(5), proc_pid_status(5)), and serves samples over HTTP.
//
// Every figure of a sample is the difference of counters over a real interval. The sum over all processes of their use,
// including that of waited-for children, grows by the use in the interval even if processes ended meanwhile. The total
// of a pod therefore includes processes that lived between two readings.
//
// Types here are not safe for concurrent use unless stated otherwise.
package probe

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processKey identifies a process. It contains the start time, because process ids are reused.
type processKey struct {
	pid   int32
	start uint64 // ticks after boot
}

// counters holds the use of a process or thread in nanoseconds, bytes and counts. Unreadable figures are
// -1.
type counters struct {
	user, system, cpu, guest, wait, ioWait int64
	read, write, cancelled                 int64
	minor, major                           int64
	voluntary, involuntary                 int64
	childCPU, childMinor, childMajor       int64
}

// threadOrProcess is the reading of one process or thread.
type threadOrProcess struct {
	processKey
	parent            int32
	command           string
	container         string
	policy, priority  int
	processor         int
	zombie            bool
	counters          counters
	resident, virtual int64 // bytes
	stack, files      int64
	threads           int64
	matched           bool // a command that was asked for
}

// processTable is the result of reading all processes once.
type processTable struct {
	at        time.Time
	processes map[processKey]*threadOrProcess
	threads   map[processKey]*threadOrProcess // by thread id
	// absent are figures that could not be read, with the reason.
	absent map[string]string
}

// reader reads the processes of a /proc.
type reader struct {
	root  string // "/proc", or a tree of a test
	live  bool   // system calls mean the same processes
	own   int32  // process id of the probe, left out
	ticks int64  // nanoseconds of a clock tick
	boot  time.Time
	// want are the tables that cost more to read.
	threads bool
	match   func(command string, args []byte) bool
}

func newReader(root string) *reader {
	r := &reader{root: root, ticks: int64(time.Second) / 100, match: func(string, []byte) bool { return true }}
	if root == "/proc" {
		r.live, r.own = true, int32(os.Getpid())
	}
	r.boot = bootTime(filepath.Join(root, "stat"))
	return r
}

// bootTime returns btime of /proc/stat.
func bootTime(path string) time.Time {
	text, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}
	}
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, "btime "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return time.Unix(n, 0)
		}
	}
	return time.Time{}
}

// read returns one table with the time at.
func (r *reader) read(at time.Time) (*processTable, error) {
	t := &processTable{at: at, processes: map[processKey]*threadOrProcess{}, threads: map[processKey]*threadOrProcess{},
		absent: map[string]string{}}
	names, err := os.ReadDir(r.root)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		pid, err := strconv.ParseInt(n.Name(), 10, 32)
		if err != nil || int32(pid) == r.own {
			continue
		}
		dir := filepath.Join(r.root, n.Name())
		p := r.readProcess(t, dir, int32(pid))
		if p == nil {
			continue
		}
		t.processes[p.processKey] = p
		if r.threads && p.matched {
			r.readThreads(t, p, dir)
		}
	}
	return t, nil
}

// readProcess reads one process into t, or returns nil if the process has ended.
func (r *reader) readProcess(t *processTable, dir string, pid int32) *threadOrProcess {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return nil
	}
	p := &threadOrProcess{processKey: processKey{pid: pid}}
	if !r.parseStat(text, p) {
		return nil
	}
	c := &p.counters
	if r.live {
		if ns, ok := readProcessClock(pid); ok && ns >= c.user+c.system-2*r.ticks {
			c.cpu = ns
		}
	}
	c.read, c.write, c.cancelled = -1, -1, -1
	if text, err = os.ReadFile(filepath.Join(dir, "io")); err == nil {
		parseIO(text, c)
	} else if isGone(err) {
		p.zombie = true // it ended while it was read
	} else {
		t.absent["read_bytes, write_bytes"] = stopReason(err)
	}
	c.voluntary, c.involuntary = -1, -1
	if text, err = os.ReadFile(filepath.Join(dir, "status")); err == nil {
		parseStatus(text, p)
	}
	c.wait = -1
	if text, err = os.ReadFile(filepath.Join(dir, "schedstat")); err == nil {
		_, c.wait = parseSchedstat(text)
	}
	p.files = -1
	if fds, err := os.ReadDir(filepath.Join(dir, "fd")); err == nil {
		p.files = int64(len(fds))
	} else if !isGone(err) {
		t.absent["files"] = stopReason(err)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "cgroup")); err == nil {
		p.container = containerID(string(text))
	}
	args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	p.matched = r.match(p.command, args)
	return p
}

// readThreads reads the threads of a process.
func (r *reader) readThreads(t *processTable, p *threadOrProcess, dir string) {
	names, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return
	}
	for _, n := range names {
		tid, err := strconv.ParseInt(n.Name(), 10, 32)
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "task", n.Name(), "stat"))
		if err != nil {
			continue
		}
		th := &threadOrProcess{processKey: processKey{pid: int32(tid)}, container: p.container}
		if !r.parseStat(text, th) {
			continue
		}
		th.parent, th.matched = p.pid, true // its process
		th.counters.read, th.counters.write, th.counters.cancelled = -1, -1, -1
		th.counters.voluntary, th.counters.involuntary, th.counters.wait = -1, -1, -1
		if text, err = os.ReadFile(filepath.Join(dir, "task", n.Name(), "schedstat")); err == nil {
			if ran, wait := parseSchedstat(text); ran >= 0 {
				th.counters.cpu, th.counters.wait = ran, wait
			}
		}
		if text, err = os.ReadFile(filepath.Join(dir, "task", n.Name(), "status")); err == nil {
			parseStatus(text, th)
		}
		t.threads[th.processKey] = th
	}
}

// readProcessClock returns the CPU time of a process including ended threads (clock_getcpuclockid(3)).
func readProcessClock(pid int32) (nanos int64, ok bool) {
	const scheduler = 2 // CPUCLOCK_SCHED of include/linux/posix-timers_types.h
	var ts unix.Timespec
	if unix.ClockGettime(^pid<<3|scheduler, &ts) != nil {
		return 0, false
	}
	return ts.Nano(), true
}

// parseStat parses /proc/PID/stat; the command is in parentheses and may hold any byte.
func (r *reader) parseStat(text []byte, p *threadOrProcess) bool {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open || end+2 > len(text) {
		return false
	}
	p.command = printableName(text[open+1 : end])
	f := strings.Fields(string(text[end+1:])) // f[0] is the third field
	if len(f) < 42 {
		return false
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(f[i-3], 10, 64); return v }
	p.zombie = f[0] == "Z" || f[0] == "X"
	p.parent, p.start = int32(n(4)), uint64(n(22))
	c := &p.counters
	c.minor, c.childMinor, c.major, c.childMajor = n(10), n(11), n(12), n(13)
	c.user, c.system, c.childCPU = n(14)*r.ticks, n(15)*r.ticks, (n(16)+n(17))*r.ticks
	c.cpu = c.user + c.system
	p.priority, p.threads, p.virtual = int(n(18)), n(20), n(23)
	p.resident = n(24) * int64(os.Getpagesize())
	p.processor, p.policy = int(n(39)), int(n(41))
	c.ioWait, c.guest = n(42)*r.ticks, -1
	if len(f) > 40 {
		c.guest = n(43) * r.ticks
	}
	p.stack, p.files = -1, -1
	return true
}

// parseIO parses /proc/PID/io.
func parseIO(text []byte, c *counters) {
	eachField(text, func(name string, v int64) {
		switch name {
		case "read_bytes":
			c.read = v
		case "write_bytes":
			c.write = v
		case "cancelled_write_bytes":
			c.cancelled = v
		}
	})
}

// parseStatus reads the context switches and the stack size from the text of /proc/PID/status.
func parseStatus(text []byte, p *threadOrProcess) {
	eachField(text, func(name string, v int64) {
		switch name {
		case "VmStk":
			p.stack = v << 10
		case "voluntary_ctxt_switches":
			p.counters.voluntary = v
		case "nonvoluntary_ctxt_switches":
			p.counters.involuntary = v
		}
	})
}

// parseSchedstat parses nanoseconds run and waited of /proc/PID/schedstat.
func parseSchedstat(text []byte) (ran, wait int64) {
	f := strings.Fields(string(text))
	if len(f) < 2 {
		return -1, -1
	}
	ran, err := strconv.ParseInt(f[0], 10, 64)
	wait, err2 := strconv.ParseInt(f[1], 10, 64)
	if err != nil || err2 != nil {
		return -1, -1
	}
	return ran, wait
}

// eachField calls f for the lines "name: number".
func eachField(text []byte, yield func(string, int64)) {
	for l := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(l, ":")
		if !ok {
			continue
		}
		words := strings.Fields(rest)
		if len(words) == 0 {
			continue
		}
		if v, err := strconv.ParseInt(words[0], 10, 64); err == nil {
			yield(name, v)
		}
	}
}

// containerID returns the container id in the text of /proc/PID/cgroup, 64 hexadecimal digits. The text contains it in
// any cgroup namespace.
func containerID(text string) string {
	const size = 64
	run := 0
	for i := range len(text) {
		if c := text[i]; c >= '0' && c <= '9' || c >= 'a' && c <= 'f' {
			run++
			if run == size && (i+1 == len(text) || !isHex(text[i+1])) {
				return text[i+1-size : i+1]
			}
		} else {
			run = 0
		}
	}
	return ""
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// printableName returns the name of a program in a form that is safe for JSON and a terminal.
func printableName(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(string(b), "?"))
}

// isGone reports whether a process ended during its reading.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func stopReason(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "permission denied: the application runs as another user, or with more capabilities; allowPtrace gives the probe SYS_PTRACE"
	}
	return err.Error()
}
