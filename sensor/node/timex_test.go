package node

import (
	"os"
	"path/filepath"
	"testing"
)

// A container sees the host under another root: its clock is ours. A recording's is not.
func TestTimexRoot(t *testing.T) {
	ours, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	for text, same := range map[string]bool{string(ours): true, "2f8e4b1c-0000-4000-8000-000000000000\n": false, "": false} {
		root := t.TempDir()
		dir := filepath.Join(root, "proc/sys/kernel/random")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "boot_id"), []byte(text), 0o444); err != nil {
				t.Fatal(err)
			}
		}
		if got := sameBoot(root); got != same {
			t.Errorf("boot id %q: of this machine %v, want %v", text, got, same)
		}
	}
	if !sameBoot("") || !sameBoot("/") {
		t.Error("the root itself is not this machine")
	}
	if _, err := NewTimex(t.TempDir()); err == nil {
		t.Error("a tree of nothing has a clock")
	}
}
