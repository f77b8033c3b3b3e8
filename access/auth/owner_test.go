package auth_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"reckon/access"
	"reckon/access/auth"
)

// TestFilesOfRoot: what root makes in the directory of a system account is that account's, so that the server may open it; nothing in a
// person's directory, or through a link, changes its owner.
func TestFilesOfRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it changes owners: run as root")
	}
	for _, c := range []struct {
		owner int
		link  bool
		want  uint32
	}{{998, false, 998}, {1000, false, 0}, {998, true, 0}, {0, false, 0}} {
		dir := filepath.Join(t.TempDir(), "reckon")
		must(t, os.Mkdir(dir, 0o750))
		must(t, os.Chown(dir, c.owner, c.owner))
		at := dir
		if c.link {
			at = filepath.Join(t.TempDir(), "link")
			must(t, os.Symlink(dir, at))
		}
		us, err := auth.Open(at, auth.Options{Fast: true})
		must(t, err)
		must(t, us.AddUser(t.Context(), auth.User{Name: "alice", Role: access.Admin}, good))
		must(t, us.Close())
		files, err := os.ReadDir(dir)
		must(t, err)
		for _, f := range files {
			info, err := f.Info()
			must(t, err)
			if uid := info.Sys().(*syscall.Stat_t).Uid; uid != c.want {
				t.Errorf("directory of %d (link %v): %s belongs to %d, want %d", c.owner, c.link, f.Name(), uid, c.want)
			}
		}
		if len(files) < 2 {
			t.Errorf("%d files", len(files))
		}
	}
}
