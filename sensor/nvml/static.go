//go:build !(nvml && linux && (amd64 || arm64))

package nvml

import "reckon/sensor"

// load returns an error: this program cannot open a library, since it is statically
// linked to run anywhere, and has no dynamic loader (doc/decisions/0410-nvml.md).
func load(path string) (library, error) {
	return nil, sensor.Unavailable("this build can not open "+path,
		"use the build for NVIDIA machines: `make build-nvml`, or go build -tags nvml", nil)
}
