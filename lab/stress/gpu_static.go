//go:build !(nvml && linux && (amd64 || arm64))

package stress

import "errors"

// openCUDA says that this program can not open a library: it is linked statically, so
// that it runs anywhere, and has no dynamic loader.
func openCUDA(int) (gpuDevice, error) {
	return nil, errors.New("this build loads no GPU: it can not open the driver's library; use the build for NVIDIA machines, `make build-nvml`")
}
