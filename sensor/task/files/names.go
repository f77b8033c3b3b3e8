package files

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"reckon/internal/sysfs"
)

// maxNames is the number of file systems that are distinguished over the life of a source; maxSource bounds the length of a name, in bytes.
const (
	maxNames  = 64
	maxSource = 200
)

// mountNames finds the file system that a device number belongs to.
type mountNames struct {
	root   string
	known  map[uint64]mountID
	others mountID // stands for file systems beyond maxNames, or that no table of mounts names
	// unfound counts how often a device was in no mount table. Because tables of container nodes are
	// long, it is looked up only at the first, second, fourth and so on occurrence, up to every
	// maxUnfound.
	unfound map[uint64]uint
}

const maxUnfound = 256

// fileSystem returns the file system with a device number. dev is that number plus 1, as the programs store it.
// fileSystem first searches the mounts of the process, which may be private, and then the machine's mounts.
func (n *mountNames) fileSystem(dev uint64, pid int32) mountID {
	if m, ok := n.known[dev]; ok {
		return m
	}
	if dev == 0 || dev == ^uint64(0) || len(n.known) >= maxNames {
		return n.others
	}
	if n.unfound == nil || len(n.unfound) > maxNames {
		n.unfound = make(map[uint64]uint)
	}
	n.unfound[dev]++
	if times := n.unfound[dev]; times&(times-1) != 0 && times%maxUnfound != 0 {
		return n.others
	}
	for _, process := range []string{strconv.Itoa(int(pid)), "1", "self"} {
		table, err := os.ReadFile(filepath.Join(n.root, "proc", process, "mountinfo"))
		if err != nil {
			continue
		}
		if m, ok := findDevice(string(table), dev-1); ok {
			m.Local = !isRemote(m.Type)
			n.known[dev] = m
			delete(n.unfound, dev)
			return m
		}
	}
	return n.others // it is looked for again: its process may have ended first
}

// findDevice looks for a device in a table of mounts (proc(5), mountinfo). A device number of the kernel has 20 bits of minor.
func findDevice(table string, dev uint64) (mount mountID, ok bool) {
	number := strconv.FormatUint(dev>>20, 10) + ":" + strconv.FormatUint(dev&(1<<20-1), 10)
	for line := range strings.Lines(table) {
		left, right, ok := strings.Cut(line, " - ")
		of := strings.Fields(left)
		what := strings.Fields(right)
		if ok && len(of) > 2 && of[2] == number && len(what) > 1 {
			return canonicalMount(what[0], unescapeName(what[1])), true
		}
	}
	return mountID{}, false
}

// canonicalMount returns a file system under the name that kernel statistics use (reckon/sensor/netfs). All NFS
// versions get one name, and Lustre is named without its server addresses.
func canonicalMount(kind, source string) mountID {
	switch kind {
	case "nfs4":
		kind = "nfs"
	case "lustre":
		if _, name, ok := strings.Cut(source, ":/"); ok && name != "" {
			source = name
		}
	}
	return mountID{Type: kind, Source: source}
}

// unescapeName resolves the octal escapes of blanks, and bounds the length.
func unescapeName(s string) string {
	s = sysfs.Unescape(s)
	return strings.ToValidUTF8(s[:min(len(s), maxSource)], "")
}
