package recording

import (
	"strings"
	"testing"
)

// TestSourcesAreScrubbed: hosts and users are replaced in every form of the source of a mount.
func TestSourcesAreScrubbed(t *testing.T) {
	for _, source := range []string{
		"nas01.corp.example:/home", "alice@nas01.corp.example:/home", "alice@nas01:", "mgs01.corp.example@tcp:/scratch",
		"mgs01@tcp1:mgs02@o2ib:/scratch",
		"mgs01@o2ib,mgs02@o2ib:/scratch", "nas01.corp.example,mgs02:/volume", "nas01:6789,mgs02:6789:/", "//nas01.corp.example/share",
		"//alice@nas01/share", "https://nas01.corp.example/dav", "sftp://alice@nas01:22/x",
	} {
		if strings.HasSuffix(source, ":") {
			source += "/x"
		}
		for _, line := range []string{
			source + " /mnt fuse rw,user_id=1000 0 0\n",
			"46 36 0:47 / /mnt rw - lustre " + source + " rw\n",
			"device " + source + " mounted on /mnt with fstype nfs4 statvers=1.1\n",
		} {
			path := "proc/self/mounts"
			switch {
			case strings.HasPrefix(line, "46 "):
				path = "proc/self/mountinfo"
			case strings.HasPrefix(line, "device "):
				path = "proc/self/mountstats"
			}
			s := NewScrubber("node7")
			d := &PassData{Files: []File{{Path: path, Data: []byte(line)}}}
			s.Pass(d)
			got := string(d.Files[0].Data)
			for _, name := range []string{"nas01", "mgs01", "mgs02", "alice", "corp"} {
				if strings.Contains(got, name) {
					t.Errorf("%s: %s is left in %q", source, name, got)
				}
			}
			if !strings.Contains(got, "/mnt") || strings.Contains(line, "@tcp") && !strings.Contains(got, "@tcp") {
				t.Errorf("%s: became %q", source, got)
			}
		}
	}
}
