package waits

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"reckon/sensor"
)

// maxNames limits the number of remembered disk names.
const maxNames = 1024

// diskNames maps device numbers stored by programs to names of disks.
type diskNames struct {
	root  string
	known map[[2]uint64]string
}

// diskName returns the name of a disk in /sys/block from its stored number (MAJOR:MINOR). It returns "" if no disk has
// that number. Network file systems have such numbers too, for the write-back of their page cache.
func (n *diskNames) diskName(stored [2]uint64) string {
	if stored == [2]uint64{} {
		return sensor.OtherNames // beyond the ones of a process that are distinguished
	}
	if name, ok := n.known[stored]; ok {
		return name
	}
	if n.known == nil || len(n.known) >= maxNames {
		n.known = make(map[[2]uint64]string)
	}
	raw := (*[16]byte)(unsafe.Pointer(&stored))[:]
	name := strings.ToValidUTF8(string(raw[:max(bytes.IndexByte(raw, 0), 0)]), "")
	if strings.Contains(name, ":") {
		disk, err := os.Readlink(filepath.Join(n.root, "sys/dev/block", filepath.Base(name)))
		if name = filepath.Base(disk); err != nil {
			name = ""
		}
	}
	n.known[stored] = strings.ReplaceAll(name, "!", "/") // as /proc/diskstats writes it
	return n.known[stored]
}
