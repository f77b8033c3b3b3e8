package waits

import (
	"os"
	"testing"
	"unsafe"

	"reckon/sensor"
)

// What programs store becomes the name of a disk: a name, a number of a disk, the number of a file system without one, and the entry
// of all further disks.
func TestNames(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/sys/dev/block", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda", root+"/sys/dev/block/8:0"); err != nil {
		t.Fatal(err)
	}
	n := diskNames{root: root}
	for stored, want := range map[string]string{"nvme0n1": "nvme0n1", "8:0": "sda", "0:45": "", "btrfs-1": "btrfs-1", "cciss!c0d0": "cciss/c0d0", "": sensor.OtherNames, "fifteen-letters": "fifteen-letters"} {
		var raw [16]byte
		copy(raw[:], stored)
		for range 2 {
			if got := n.diskName(*(*[2]uint64)(unsafe.Pointer(&raw))); got != want {
				t.Errorf("%q is %q, want %q", stored, got, want)
			}
		}
	}
	for i := range 3 * maxNames {
		n.diskName([2]uint64{uint64(i)<<8 | 'a', 1})
	}
	if len(n.known) > maxNames {
		t.Errorf("%d names are kept", len(n.known))
	}
}
