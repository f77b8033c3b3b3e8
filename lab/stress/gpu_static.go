//go:build !(nvml && linux && (amd64 || arm64))

package stress

import "errors"

// openCUDA returns an error: this program cannot open a library, since it is statically
// linked to run anywhere, and has no dynamic loader.
func openCUDA(int) (gpuDevice, error) {
	return nil, errors.New(
		"this build loads no GPU: it cannot open the driver's library; use the build for NVIDIA machines, `make build-nvml`")
}
