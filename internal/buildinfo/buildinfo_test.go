package buildinfo

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestFrom(t *testing.T) {
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2026-11-21T10:00:00Z"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		name, linked string
		info         *debug.BuildInfo
		version      string
		line         string
	}{
		{"no information", "", nil, "devel", "reckon devel, go"},
		{"checkout", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings}, "devel", "reckon devel (0123456789ab-dirty), go"},
		{"pseudo version", "", &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261121100000-0123456789ab"}, Settings: settings}, "0.0.0-20261121100000-0123456789ab", "reckon 0.0.0-20261121100000-0123456789ab, go"},
		{"release", "1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-1-abc"}}, "1.2.3", "reckon 1.2.3, go"},
	} {
		got := from(c.linked, c.info)
		if got.Version != c.version || !strings.HasPrefix(got.String(), c.line) {
			t.Errorf("%s: version %q, line %q; want %q and %q...", c.name, got.Version, got, c.version, c.line)
		}
	}
}
