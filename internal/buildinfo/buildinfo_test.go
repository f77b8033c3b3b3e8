package buildinfo

import (
	"os"
	"regexp"
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
		{"no information", "", nil, Release(), "reckon " + Release() + ", go"},
		{"checkout", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings}, Release(), "reckon " + Release() + " (0123456789ab-dirty), go"},
		{"between releases", "1.2.3+20261121.100000.g0123456789ab", &debug.BuildInfo{Settings: settings}, "1.2.3+20261121.100000.g0123456789ab", "reckon 1.2.3+20261121.100000.g0123456789ab, go"},
		{"release", "1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-1-abc"}}, "1.2.3", "reckon 1.2.3, go"},
	} {
		got := newInfo(c.linked, c.info)
		if got.Version != c.version || !strings.HasPrefix(got.String(), c.line) {
			t.Errorf("%s: version %q, line %q; want %q and %q...", c.name, got.Version, got, c.version, c.line)
		}
	}
}

// The version is stated in one file; what cannot read it reports the same.
func TestVersionEverywhere(t *testing.T) {
	for file, pattern := range map[string]string{
		"deploy/helm/reckon/Chart.yaml": `(?m)^(?:appVersion|version): "?([^"\n]+)"?$`,
		"deploy/ansible/galaxy.yml":     `(?m)^version: (.*)$`,
		"deploy/kustomize/reckon.yaml":  `app.kubernetes.io/version: "?([^"\n]+)"?`,
		"doc/guides/kubernetes.md":      `reckon(?:-agent|-operator)?[-:](\d+\.\d+\.\d+)`,
	} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			if m[1] != Release() {
				t.Errorf("%s says %q, VERSION %s", file, m[0], Release())
			}
		}
	}
}
