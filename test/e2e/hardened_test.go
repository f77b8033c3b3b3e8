//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHardenedServer runs the server as its unit does where systemd is not there: as a user of its own without capabilities, with a /proc
// that shows it nothing of others. It still distinguishes root of this machine from root of containers, and users from root.
func TestHardenedServer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be others")
	}
	for _, program := range []string{"curl", "setpriv", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	const own = 48720
	dir, err := os.MkdirTemp("", "reckon-hardened")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, mode := range map[string]os.FileMode{dir: 0o755, filepath.Join(dir, "data"): 0o750, filepath.Join(dir, "run"): 0o755, filepath.Dir(program(t, "reckon")): 0o755} {
		_ = os.Mkdir(name, mode)
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(name) == dir {
			if err := os.Chown(name, own, own); err != nil {
				t.Fatal(err)
			}
		}
	}
	socket := filepath.Join(dir, "run", "api.sock")
	l := &login{t: t, socket: socket}
	l.up = start(t, "serve", filepath.Join(dir, "data"), []string{"--set", "api-socket=" + socket}, func(c *exec.Cmd) {
		c.Args = append([]string{"unshare", "-m", "sh", "-c", "mount -t proc -o hidepid=invisible,subset=pid proc /proc && exec setpriv --reuid=48720 " +
			`--regid=48720 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"`, "sh", c.Path}, c.Args[1:]...)
		c.Path, _ = exec.LookPath("unshare")
	})
	user := games[:len(games):len(games)]
	for _, who := range []struct {
		as     []string
		socket bool
		role   string
	}{
		{[]string{"env"}, true, "admin"}, {[]string{"env"}, false, "admin"}, {[]string{"unshare", "-n"}, true, "public"},
		{[]string{"unshare", "-p", "-f"}, true, "public"}, {[]string{"unshare", "-n", "-p", "-f"}, true, "public"},
		{[]string{"setpriv", "--reuid=48720", "--regid=48720", "--clear-groups"}, true, "admin"}, {user, true, "user"}, {user, false, "user"},
		{append(user, "unshare", "-U", "-r"), true, "user"}, {append(user, "unshare", "-U", "-r"), false, "user"},
		{append(user, "unshare", "-U", "-r", "-n"), true, "user"},
	} {
		by := map[bool]string{true: "socket"}[who.socket]
		status, text := l.ask(request{as: who.as, by: by, path: "/auth/me"})
		if want := `"role":"` + who.role + `"`; status != 200 || !strings.Contains(text, want) {
			t.Errorf("%v by %q: %d %s, want %s", who.as, by, status, strings.TrimSpace(text), want)
		}
	}
}
