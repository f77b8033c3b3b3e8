package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Notes says what the last pass could not see, and what to do about it, one line each.
func (s *Source) Notes() []string {
	hidden, denied := 0, 0
	for _, e := range s.entries {
		if e.hidden {
			hidden++
		}
		if e.ioDenied {
			denied++
		}
	}
	var notes []string
	if s.hidepid != "" {
		notes = append(notes, fmt.Sprintf("%s is mounted with %s: processes of other users are not seen "+
			"(run as root, grant CAP_SYS_PTRACE, or run in the group of the mount's gid option)", s.name, s.hidepid))
	}
	if hidden > 0 {
		notes = append(notes, fmt.Sprintf("%d processes may not be read (run as root or grant CAP_SYS_PTRACE)", hidden))
	}
	if denied > 0 {
		notes = append(notes, fmt.Sprintf("I/O of %d processes of other users is not known (run as root or grant CAP_SYS_PTRACE)", denied))
	}
	if s.firstErr != nil {
		notes = append(notes, s.firstErr.Error())
	}
	if !s.clock {
		notes = append(notes, "CPU time is known to 10 ms only: "+s.name+" is not of our own process id namespace")
	}
	return notes
}

// hides returns the mount option that hides processes of others from us, or "". The first
// process is another user's unless we are root.
func (s *Source) hides() string {
	info, err := os.ReadFile(filepath.Join(s.name, "self/mountinfo"))
	if err != nil || !isProc(s.dir) {
		return ""
	}
	option := hidepid(info, s.name)
	if option == "" {
		return ""
	}
	f, err := s.openPID(1, "stat")
	if err != nil {
		return option
	}
	defer f.close()
	if _, err := s.content(f); err == unix.EACCES || err == unix.EPERM {
		return option
	}
	return ""
}

// hidepid finds the option of that name of the procfs mounted at dir in mountinfo
// (proc_pid_mountinfo(5)). The values 1 and 2 are "noaccess" and "invisible" since 5.8.
//
//	22 28 0:21 / /proc rw,nosuid - proc proc rw,hidepid=invisible
func hidepid(info []byte, dir string) string {
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
		found = "" // the last mount on a directory is the one that is seen
		for option := range strings.SplitSeq(string(f[sep+3]), ",") {
			v, ok := strings.CutPrefix(option, "hidepid=")
			if ok && v != "0" && v != "off" {
				found = option
			}
		}
	}
	return found
}
