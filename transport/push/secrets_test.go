package push

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWritableSecrets: a token that others may replace is refused, with what to do; one in a folder of everybody, too. A link, as in
// a Secret of Kubernetes, counts as its file.
func TestWritableSecrets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "token")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, folder os.FileMode
		refused      bool
	}{{0o600, 0o755, false}, {0o640, 0o750, false}, {0o644, 0o755, false}, {0o666, 0o755, true}, {0o620, 0o755, true},
		{0o600, 0o777, true}, {0o600, 0o777 | os.ModeSticky, false}} {
		if err := errors.Join(os.Chmod(file, c.file), os.Chmod(dir, c.folder)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{file, link} {
			_, err := readSecret(name)
			if (err != nil) != c.refused || c.refused && !strings.Contains(err.Error(), "chmod go-w") {
				t.Errorf("file %v in %v: %v", c.file, c.folder, err)
			}
		}
	}
}
