package jobs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPostRunQuotes: an option that is no script reaches the script of another host as one word, whatever it holds.
func TestPostRunQuotes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "view/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hpcstruct", "hpcprof"} {
		if err := os.WriteFile(filepath.Join(dir, "view/bin", name), []byte("#!/bin/bash\nprintf '<%s>' \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const output = "a\"; touch hacked; $(touch hacked) `touch hacked` 'b\nRECKON_END\ntouch hacked"
	run := exec.Command(bash, "-c", postRun+"\nbash ./post-run.sh")
	run.Dir, run.Env = dir, append(os.Environ(), "RECKON_VIEW="+dir, "RECKON_OUTPUT="+output)
	out, err := run.CombinedOutput()
	if want := "<" + output + "><-o><" + output + "-database><" + output + ">"; err != nil || string(out) != want {
		t.Errorf("%v: %s\nwant %s", err, out, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "hacked")); err == nil {
		t.Error("text of an option was run")
	}
}
