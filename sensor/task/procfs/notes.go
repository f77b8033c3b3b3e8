package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Hidden returns a [sensor.UnavailableError] if the /proc mount below root hides the processes of other users. It tests
// whether process 1 is visible, which belongs to another user unless we are root.
func Hidden(root string) error {
	dir := filepath.Join("/", root, "proc")
	var fs unix.Statfs_t
	info, err := os.ReadFile(filepath.Join(dir, "self/mountinfo"))
	if err != nil || unix.Statfs(dir, &fs) != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		return nil
	}
	option := hidepidOption(info, dir)
	if option == "" {
		return nil
	}
	if _, err := os.ReadFile(filepath.Join(dir, "1/stat")); err == nil {
		return nil
	}
	return sensor.Unavailable(
		fmt.Sprintf("%s is mounted with %s, so that processes of other users are not seen: what they use counts as that of "+
			"other", dir, option), "run as root, grant CAP_SYS_PTRACE, run in the group of the mount's gid option, or leave out "+
			"ProtectProc= of a unit",
		nil)
}

// hidepidOption returns the option hidepid of the proc file system mounted at dir. info is the text of mountinfo
// (proc_pid_mountinfo(5)). Since Linux 5.8 the values 1 and 2 are written "noaccess" and "invisible".
//
//	22 28 0:21 / /proc rw,nosuid - proc proc rw,hidepid=invisible
func hidepidOption(info []byte, dir string) string {
	found := ""
	for l := range bytes.Lines(info) {
		f := bytes.Fields(l)
		sep := -1
		for i := range f {
			if string(f[i]) == "-" {
				sep = i
				break
			}
		}
		if len(f) < 6 || sep < 6 || len(f) < sep+4 || string(f[4]) != dir || string(f[sep+1]) != "proc" {
			continue
		}
		found = "" // the last mount on a directory hides the earlier ones
		for option := range strings.SplitSeq(string(f[sep+3]), ",") {
			v, ok := strings.CutPrefix(option, "hidepid=")
			if ok && v != "0" && v != "off" {
				found = option
			}
		}
	}
	return found
}
