package instance

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func machine(t *testing.T, id, boot string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"etc/machine-id": id, "proc/sys/kernel/random/boot_id": boot} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The id stays over restarts; a clone has another one unless its state was cloned too; a
// reboot is another boot. What the machine calls itself does not travel.
func TestLoad(t *testing.T) {
	const text = "0123456789abcdef0123456789abcdef"
	root, dir := machine(t, text+"\n", "boot 1\n"), filepath.Join(t.TempDir(), "state")
	a, err := Load(root, dir)
	if err != nil || !isValidID(a.Agent) || !isValidID(a.Machine) || !isValidID(a.Boot) || strings.Contains(a.Machine, text[:8]) {
		t.Fatalf("%+v, %v", a, err)
	}
	if again, err := Load(root, dir); err != nil || again != a {
		t.Errorf("after a restart %+v, %v; want %+v", again, err, a)
	}
	clone, err := Load(root, t.TempDir())
	if err != nil || clone.Machine != a.Machine || clone.Agent == a.Agent {
		t.Errorf("clone %+v, %v", clone, err)
	}
	booted, err := Load(machine(t, text, "boot 2"), dir)
	if err != nil || booted.Agent != a.Agent || booted.Boot == a.Boot || booted.Machine != a.Machine {
		t.Errorf("after a reboot %+v, %v", booted, err)
	}
	if bare, err := Load(t.TempDir(), dir); err != nil || bare.Machine != "" || bare.Boot != "" || bare.Agent != a.Agent {
		t.Errorf("without ids %+v, %v", bare, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "instance"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if fresh, err := Load(root, dir); err != nil || !isValidID(fresh.Agent) || fresh.Agent == a.Agent {
		t.Errorf("after damage %+v, %v", fresh, err)
	}
	if lost, err := Load(root, filepath.Join(dir, "instance", "no folder")); err == nil || !isValidID(lost.Agent) {
		t.Errorf("where it cannot be kept: %+v, %v", lost, err)
	}
}

func TestHeader(t *testing.T) {
	id, err := Load(machine(t, "m", "b"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := Sender{ID: id, Site: "süd; a&b", Node: "n 1", Age: 1500 * time.Millisecond, Sent: time.UnixMilli(1_700_000_000_123)}
	h := http.Header{}
	h.Set(HeaderName, s.Header())
	if got, ok := Parse(h); !ok || got != s {
		t.Errorf("%+v, want %+v", got, s)
	}
	for _, text := range []string{
		"", "node=a", "agent=x&node=a&age=1&sent=1", "agent=" + id.Agent + "&age=1&sent=1", "agent=" + id.Agent + "&node=a&age=-1&sent=1",
		"agent=" + id.Agent + "&node=a&age=1&sent=1&boot=zz", "agent=" + id.Agent + "&node=" + strings.Repeat("a", 254) + "&age=1&sent=1",
		"agent=" + id.Agent + "&node=a&age=99999999999999999&sent=1", "%zz", strings.Repeat("a", 3000),
	} {
		h.Set(HeaderName, text)
		if got, ok := Parse(h); ok {
			t.Errorf("%.60q is %+v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("agent=00112233445566778899aabbccddeeff&node=a&age=1&sent=1")
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := Parse(http.Header{HeaderName: {text}})
		if !ok {
			return
		}
		if again, ok := Parse(http.Header{HeaderName: {s.Header()}}); ok && again != s {
			t.Errorf("%+v became %+v", s, again)
		}
	})
}
