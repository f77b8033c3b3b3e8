//go:build !(nvml && linux && (amd64 || arm64))

package nvml

import "reckon/sensor"

// load returns an error. This program is statically linked so that it runs anywhere, and therefore
// has no dynamic loader to open a library (doc/decisions/0410-nvml.md).
func load(path string) (library, error) {
	return nil, sensor.Unavailable("this build can not open "+path,
		"use the build for NVIDIA machines: `make build-nvml`, or go build -tags nvml", nil)
}
