//go:build !(nvml && linux && (amd64 || arm64))

package nvml

import "reckon/sensor"

// loadLibrary always returns an error. This program is statically linked so that it runs on any machine. It therefore has no
// dynamic loader, which the library requires (doc/decisions/0410-nvml.md).
func loadLibrary(path string) (library, error) {
	return nil, sensor.Unavailable("this build can not open "+path,
		"use the build for NVIDIA machines: `make build-nvml`, or go build -tags nvml", nil)
}
