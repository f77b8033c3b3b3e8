//go:build !(nvml && linux && (amd64 || arm64))

package stress

import "errors"

// openCUDA always returns an error. This program is statically linked so that it runs on any machine. It therefore has
// no dynamic loader, which the driver's library requires.
func openCUDA(int) (gpuDevice, error) {
	return nil, errors.New(
		"this build loads no GPU: it cannot open the driver's library; use the build for NVIDIA machines, `make build-nvml`")
}
