// Package buildinfo identifies the build of reckon: the version of the file VERSION beside it, which is the only place that
// states it, and the commit that the Go toolchain records in the binary (runtime/debug.BuildInfo). Archives and packages of a
// commit between releases have the commit in their version, by the linker:
//
//	go build -ldflags "-X reckon/internal/buildinfo.Version=1.2.3+20261121.083000.gabc1234"
package buildinfo

import (
	"cmp"
	_ "embed"
	"runtime"
	"runtime/debug"
	"strings"
)

//go:embed VERSION
var versionFile string

// Version is set by the linker for builds between releases; if it is empty, [Get] uses [Release].
// It is a variable only because the linker cannot set a constant.
var Version string

// Release returns the version of the file VERSION: the release that this is, or comes after.
func Release() string { return strings.TrimSpace(versionFile) }

// Info is the output of `reckon version --json`.
type Info struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // commit, with -dirty if the tree had changes
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"` // GOOS/GOARCH
}

// Get returns the build of this binary.
func Get() Info {
	info, _ := debug.ReadBuildInfo()
	return newInfo(Version, info)
}

func newInfo(version string, b *debug.BuildInfo) Info {
	i := Info{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b != nil {
		dirty := false
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Revision = s.Value
			case "vcs.time":
				i.Time = s.Value
			case "vcs.modified":
				dirty = s.Value == "true"
			}
		}
		if dirty && i.Revision != "" {
			i.Revision += "-dirty"
		}
	}
	i.Version = cmp.Or(i.Version, Release())
	return i
}

// String returns a line for people.
func (i Info) String() string {
	s := "reckon " + i.Version
	if i.Revision != "" && !strings.Contains(i.Version, i.Revision[:min(12, len(i.Revision))]) {
		s += " (" + i.Revision[:min(12, len(i.Revision))]
		if strings.HasSuffix(i.Revision, "-dirty") {
			s += "-dirty"
		}
		s += ")"
	}
	return s + ", " + i.Go + ", " + i.Platform
}
