//go:build nvml && linux && (amd64 || arm64)

package stress

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCUDA makes the calls to a library that behaves as defined in testdata/fakecuda.c:
// names, order and size of arguments. make test-nvml builds it.
func TestCUDA(t *testing.T) {
	path, err := filepath.Abs(filepath.Join("testdata", "libfakecuda.so"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("needs testdata/libfakecuda.so, which make test-nvml builds")
	}
	dev, err := openCUDAFrom(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if dev.name() != "GPU 0 (Fake GPU)" {
		t.Errorf("name %q", dev.name())
	}
	if err := dev.enter(); err != nil {
		t.Fatal(err)
	}
	took, err := dev.spin(2_000_000) // 2 ms
	if err != nil || took != 2*time.Millisecond {
		t.Errorf("%v, %v", took, err)
	}
	if _, err := dev.spin(13); err == nil || !strings.Contains(err.Error(), "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED") {
		t.Errorf("a kernel that fails: %v", err)
	}
	if err := dev.close(); err != nil {
		t.Error(err)
	}
	if _, err := openCUDAFrom(path, 2); err == nil || !strings.Contains(err.Error(), "this machine has 2") {
		t.Errorf("no such device: %v", err)
	}
	if _, err := openCUDAFrom("libnosuchthing.so.1", 0); err == nil || !strings.Contains(err.Error(), "no NVIDIA driver library") {
		t.Errorf("no library: %v", err)
	}
}

// TestRealGPU loads the GPU of this machine, if it has one.
func TestRealGPU(t *testing.T) {
	dev, err := openCUDA(0)
	if err != nil {
		t.Skipf("no GPU here: %v", err)
	}
	if err := dev.close(); err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), Constant(Level{GPU: 0.3}, 5*time.Second), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := report.Steps[0].Figures[GPU.String()]
	if got.Achieved == nil || math.Abs(*got.Achieved-0.3) > 0.02 {
		t.Errorf("achieved %v of 0.3", got.Achieved)
	}
}
