package netfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reckon/internal/sysfs"
)

// lustre reads llite.*.stats: of each mount the number of operations by name, bytes, and with newer releases microseconds.
type lustre struct {
	dirs []string
	next time.Time // time of the next search, if there was none
	buf  []byte
	now  [countFields]uint64
	has  [countFields]bool
}

func newLustre(root string) *lustre {
	return &lustre{buf: make([]byte, 16<<10), dirs: []string{
		sysfs.Path(root, "sys/kernel/debug/lustre/llite"), sysfs.Path(root, "proc/fs/lustre/llite"),
	}}
}

// eachMount calls the function for every mount. If debugfs is not readable, there are none, because the mounts are unknown.
func (l *lustre) eachMount(now time.Time, take mountFunc) error {
	if now.Before(l.next) {
		return nil
	}
	for _, dir := range l.dirs {
		list, err := os.ReadDir(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			continue
		case err != nil:
			return fmt.Errorf("list mounts of Lustre: %w", err)
		}
		for _, e := range list {
			if err := l.readMount(filepath.Join(dir, e.Name(), "stats"), e.Name(), take); err != nil {
				return err
			}
		}
		if len(list) > 0 {
			return nil // older releases have both
		}
	}
	l.next = now.Add(searchInterval)
	return nil
}

// searchInterval is the interval at which Lustre is looked for while it is not mounted.
const searchInterval = time.Minute

// readMount reads the statistics of a mount. The name of a mount is that of the file system and a number of the kernel.
func (l *lustre) readMount(path, name string, take mountFunc) error {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // unmounted meanwhile
		}
		return fmt.Errorf("read statistics of Lustre: %w", err)
	}
	defer f.Close()
	n := 0
	for n < len(l.buf) {
		m, err := f.Read(l.buf[n:])
		n += m
		if err != nil || m == 0 {
			break
		}
	}
	l.now, l.has = [countFields]uint64{}, [countFields]bool{}
	if !l.parseStats(l.buf[:n]) {
		return nil
	}
	take([]byte(name), "lustre", func() string {
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i]
		}
		return strings.ToValidUTF8(name, "\uFFFD")
	}, &l.now, &l.has)
	return nil
}

// parseStats parses lines with the number of samples and their minimum, maximum and sum:
//
//	write_bytes   89467810 samples [bytes] 4096 1048576 93813797294080
//	write         89467810 samples [usecs] 12 40961 5273910284
//	open          136 samples [regs]
func (l *lustre) parseStats(text []byte) bool {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		name, rest := sysfs.Field(line)
		var count, sum [1]uint64
		if parseNumbers(rest, count[:]) != 1 {
			continue
		}
		_, rest = sysfs.Field(rest)
		samples, rest := sysfs.Field(rest)
		unit, rest := sysfs.Field(rest)
		if string(samples) != "samples" || count[0] >= maxPlausible {
			continue
		}
		_, rest = sysfs.Field(rest)
		_, rest = sysfs.Field(rest)
		summed := parseNumbers(rest, sum[:]) == 1 && sum[0] < 1<<63
		switch string(name) {
		case "read_bytes", "write_bytes":
			direction := opRead
			if name[0] == 'w' {
				direction = opWrite
			}
			// Also where there is a line of times, which counts the same calls.
			l.now[readOperations+direction], l.has[readOperations+direction] = count[0], true
			if summed && string(unit) == "[bytes]" {
				l.now[readBytes+direction], l.has[readBytes+direction] = sum[0], true
			}
		case "read", "write":
			direction := opRead
			if name[0] == 'w' {
				direction = opWrite
			}
			if summed && isMicroseconds(unit) {
				l.now[readMicros+direction], l.has[readMicros+direction] = sum[0], true
			}
		default:
			if !metadataCalls[string(name)] {
				continue
			}
			l.now[readOperations+opMetadata] += count[0]
			l.has[readOperations+opMetadata] = true
			if summed && isMicroseconds(unit) {
				l.now[readMicros+opMetadata] += sum[0]
				l.has[readMicros+opMetadata] = true
			}
		}
	}
	return l.has[readOperations+opRead] || l.has[readOperations+opWrite] || l.has[readOperations+opMetadata]
}

func isMicroseconds(unit []byte) bool { return string(unit) == "[usecs]" || string(unit) == "[usec]" }

// metadataCalls are the names of calls that programs make on files and directories. Other lines of the statistics count
// internals of the client, such as inode_permission and cache hits.
var metadataCalls = map[string]bool{
	"open": true, "close": true, "getattr": true, "setattr": true, "create": true, "link": true, "unlink": true, "symlink": true,
	"mkdir": true, "rmdir": true, "mknod": true, "rename": true, "statfs": true, "readdir": true, "seek": true, "fsync": true,
	"truncate": true, "flock": true, "getxattr": true, "setxattr": true, "listxattr": true, "removexattr": true, "fallocate": true,
}
