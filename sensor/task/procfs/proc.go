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

// Proc reads single processes to identify them. It is safe for concurrent use. An error matches fs.ErrNotExist if the
// process is gone, and fs.ErrPermission if the process may not be read.
type Proc struct {
	// Root is the directory with the machine's file tree, "" for "/".
	Root string

	origin cgpath.Origin
}

// NewProc returns a Proc for the machine's file tree at root. If root is a mounted tree, control group paths are
// absolute even in a cgroup namespace.
func NewProc(root string) Proc { return Proc{Root: root, origin: cgpath.FindOrigin(root)} }

// environmentLimit limits the bytes read of an environment. The kernel allows megabytes.
const environmentLimit = 256 << 10

// cgroupLimit limits the bytes read from /proc/PID/cgroup. A dozen hierarchies have paths of at most 4 KiB each.
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

// Cgroups returns the cgroups of a process, one per hierarchy, in the order of the kernel. See [NewProc] for the group
// that paths are relative to.
func (p Proc) Cgroups(pid int32) ([]sensor.CgroupPath, error) {
	b, err := p.read(pid, "cgroup", cgroupLimit)
	if err != nil {
		return nil, err
	}
	return parseCgroups(b, p.origin), nil
}

// Env returns the values of some variables in the initial environment of a process. It searches the first 256 KiB and
// stores nothing else, because environments may contain secrets. For a kernel thread it returns an empty map and no
// error.
func (p Proc) Env(pid int32, keys ...string) (map[string]string, error) {
	b, err := p.read(pid, "environ", environmentLimit)
	for range 3 {
		if err != nil || len(b) > 0 || !p.isStarting(pid) {
			break
		}
		time.Sleep(200 * time.Microsecond)
		b, err = p.read(pid, "environ", environmentLimit)
	}
	if err != nil {
		return nil, err
	}
	return findVariables(b, keys), nil
}

// Args returns the arguments of a process, the program name first, up to 256 KiB. For a kernel
// thread it returns an empty list and no error.
func (p Proc) Args(pid int32) ([]string, error) {
	b, err := p.read(pid, "cmdline", environmentLimit)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}

// isStarting reports whether a process may be inside execve(2). It then has neither arguments nor an environment.
func (p Proc) isStarting(pid int32) bool {
	b, err := p.read(pid, "cmdline", 1)
	return err == nil && len(b) == 0
}

// findVariables finds variables in NUL-terminated NAME=value strings. As with getenv(3), the first of a name counts.
func findVariables(b []byte, keys []string) map[string]string {
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

// noSession is the kernel's session id of a process without a login: AUDIT_SID_UNSET in include/uapi/linux/audit.h.
const noSession = 1<<32 - 1

// LoginSession returns the audit session of a process. It returns false if the process has none, or if the kernel has
// no audit support (CONFIG_AUDIT).
func (p Proc) LoginSession(pid int32) (session uint32, ok bool, err error) {
	return p.readAudit(pid, "sessionid")
}

// LoginUser returns the login user of a process even if it changed its user (pam_loginuid(8)), or false as LoginSession does.
func (p Proc) LoginUser(pid int32) (uid uint32, ok bool, err error) {
	return p.readAudit(pid, "loginuid")
}

func (p Proc) readAudit(pid int32, file string) (id uint32, ok bool, err error) {
	b, err := p.read(pid, file, 32)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := p.read(pid, "stat", 16); gone == nil {
			return 0, false, nil
		}
	}
	if err != nil {
		return 0, false, err
	}
	id, ok = sessionID(b)
	return id, ok, nil
}

func sessionID(b []byte) (uint32, bool) {
	v, ok := sysfs.Unsigned(bytes.TrimSpace(b))
	if !ok || v >= noSession {
		return 0, false
	}
	return uint32(v), true
}

// Process returns the identity of a process: its parent, group, session, start, user and name. It sets no figures of
// use other than the times of reaped children.
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
