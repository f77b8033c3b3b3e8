package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/internal/sysfs"
	"reckon/sensor"
)

// Proc looks at single processes, once each, to find out what they belong to. It may
// be used from several goroutines. Errors match fs.ErrNotExist when the process is gone
// and fs.ErrPermission when it may not be looked at.
type Proc struct {
	// Root is the place where the machine's file tree is mounted, "" for "/".
	Root string

	origin cgpath.Origin
}

// NewProc returns a Proc with absolute paths of control groups also in a cgroup
// namespace, where the tree of the machine is mounted.
func NewProc(root string) Proc { return Proc{Root: root, origin: cgpath.FindOrigin(root)} }

// environmentLimit bounds what is read of an environment. The kernel allows megabytes.
const environmentLimit = 256 << 10

// cgroupLimit bounds what is read of /proc/PID/cgroup: a dozen hierarchies with
// paths of at most 4 KiB each.
const cgroupLimit = 64 << 10

func (p Proc) read(pid int32, name string, limit int) ([]byte, error) {
	root := p.Root
	if root == "" {
		root = "/"
	}
	f, err := os.Open(filepath.Join(root, "proc", strconv.Itoa(int(pid)), name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if errors.Is(err, unix.ESRCH) { // it ended while it was read
		return nil, fmt.Errorf("read %s: %w", f.Name(), fs.ErrNotExist)
	}
	return b, err
}

// Cgroups returns the cgroups of a process, one for each hierarchy, as the kernel
// lists them; see [NewProc] for where their paths begin.
func (p Proc) Cgroups(pid int32) ([]sensor.CgroupPath, error) {
	b, err := p.read(pid, "cgroup", cgroupLimit)
	if err != nil {
		return nil, err
	}
	return parseCgroups(b, p.origin), nil
}

// Env returns the keys that stand in the environment which the process was
// started with. Nothing else of it is kept. What lies beyond its first 256 KiB is not
// found. An empty map without an error is also what a kernel thread gives.
func (p Proc) Env(pid int32, keys ...string) (map[string]string, error) {
	b, err := p.read(pid, "environ", environmentLimit)
	for range 3 {
		if err != nil || len(b) > 0 || !p.starting(pid) {
			break
		}
		time.Sleep(200 * time.Microsecond)
		b, err = p.read(pid, "environ", environmentLimit)
	}
	if err != nil {
		return nil, err
	}
	return environment(b, keys), nil
}

// Args returns the arguments that a process was started with, the program's name first, of at
// most 256 KiB. An empty list without an error is what a kernel thread gives.
func (p Proc) Args(pid int32) ([]string, error) {
	b, err := p.read(pid, "cmdline", environmentLimit)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}

// starting reports whether a process may be in the middle of execve(2), where it has
// neither arguments nor an environment for a moment.
func (p Proc) starting(pid int32) bool {
	b, err := p.read(pid, "cmdline", 1)
	return err == nil && len(b) == 0
}

// environment finds variables in NAME=value strings that each end in NUL. The first
// one of a name counts, as for getenv(3).
func environment(b []byte, keys []string) map[string]string {
	found := make(map[string]string, len(keys))
	whole := len(b) < environmentLimit
	for len(b) > 0 {
		variable, rest, ended := bytes.Cut(b, []byte{0})
		if !ended && !whole {
			return found // cut off in the middle
		}
		b = rest
		name, value, ok := bytes.Cut(variable, []byte{'='})
		if !ok {
			continue
		}
		for _, k := range keys {
			if _, dup := found[k]; !dup && string(name) == k {
				found[k] = string(value)
			}
		}
	}
	return found
}

// noSession is the kernel's value for a process that no login began:
// AUDIT_SID_UNSET of include/uapi/linux/audit.h.
const noSession = 1<<32 - 1

// LoginSession returns the audit session of a process, or false when it belongs to none
// or the kernel keeps none (CONFIG_AUDIT).
func (p Proc) LoginSession(pid int32) (uint32, bool, error) {
	return p.audit(pid, "sessionid")
}

// LoginUser returns the user who logged in, whatever a process became since (pam_loginuid(8)), or false as LoginSession does.
func (p Proc) LoginUser(pid int32) (uint32, bool, error) { return p.audit(pid, "loginuid") }

func (p Proc) audit(pid int32, file string) (uint32, bool, error) {
	b, err := p.read(pid, file, 32)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := p.read(pid, "stat", 16); gone == nil {
			return 0, false, nil
		}
	}
	if err != nil {
		return 0, false, err
	}
	id, ok := sessionID(b)
	return id, ok, nil
}

func sessionID(b []byte) (uint32, bool) {
	v, ok := sysfs.Unsigned(bytes.TrimSpace(b))
	if !ok || v >= noSession {
		return 0, false
	}
	return uint32(v), true
}

// Process returns the identity of a process: its parent, group, session, start, user and
// name, and what the children that it has waited for used. Nothing of what it used itself
// is set.
func (p Proc) Process(pid int32) (sensor.Process, error) {
	b, err := p.read(pid, "stat", 4<<10)
	if err != nil {
		return sensor.Process{}, err
	}
	var s stat
	if err := parseStat(b, &s); err != nil {
		return sensor.Process{}, fmt.Errorf("read the stat of process %d: %w", pid, err)
	}
	root := p.Root
	if root == "" {
		root = "/"
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(root, "proc", strconv.Itoa(int(pid))), &st); err != nil {
		return sensor.Process{}, err
	}
	return sensor.Process{
		PID: s.pid, PPID: s.ppid, PGID: s.pgid, SID: s.sid, UID: st.Uid, Comm: s.comm, Kernel: s.kernel, State: s.state,
		Start:          s.start * (1e9 / ticksPerSecond()),
		ChildUserNanos: s.cutime * (1e9 / ticksPerSecond()), ChildSystemNanos: s.cstime * (1e9 / ticksPerSecond()),
		Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldChildren,
	}, nil
}
