package sensor

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// A source that is not available explains why in one line, and its label names what the kernel answered where the reason alone does not report what is wrong.
func TestUnavailable(t *testing.T) {
	hooks := errors.Join(errors.New("vfs_mkdir: the kernel has no such function"), fs.ErrPermission)
	for name, c := range map[string]struct {
		err         error
		text, label string
	}{
		"reason": {Unavailable("not a Jetson", "", nil), "not a Jetson", "not a Jetson"},
		"remedy": {Unavailable("no taskstats", "use another kernel", nil), "no taskstats (use another kernel)", "no taskstats (use another kernel)"},
		"cause":  {Unavailable("no zones", "load the driver", fs.ErrNotExist), "no zones: file does not exist (load the driver)", "no zones (load the driver)"},
		"refused": {RefusedError("some calls are not counted", "", hooks),
			"some calls are not counted: vfs_mkdir: the kernel has no such function; permission denied",
			"some calls are not counted: vfs_mkdir: the kernel has no such function; permission denied"},
	} {
		var u *UnavailableError
		if !errors.As(c.err, &u) || !errors.Is(c.err, ErrUnavailable) {
			t.Fatalf("%s: %#v", name, c.err)
		}
		if got := u.Error(); got != c.text || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want %q", name, got, c.text)
		}
		if got := u.Label(); got != c.label {
			t.Errorf("%s: the label is %q, want %q", name, got, c.label)
		}
	}
	if err := RefusedError("refused", "", hooks); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v hides its cause", err)
	}
}
