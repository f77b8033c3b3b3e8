//go:build nvml && linux && (amd64 || arm64)

package nvml

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"reckon/sensor"
)

// TestABI calls a shared library that behaves as defined in testdata/fakenvml.c, through
// the same calls as the driver's: names, order of arguments, layout of structs. The
// library is built beforehand (make test-nvml), because a test of a sensor runs no
// program.
func TestABI(t *testing.T) {
	l := fakeLibrary(t)
	s, err := openSensor(l, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	read(t, s)
	got := read(t, s)
	const dev = "nvidia|GPU-abi|0"
	want(t, got, "gpu_info|"+dev+"|Fake GPU|580.1||00000000:3B:00.0|", 1)
	want(t, got, "gpu_xid_last|"+dev, 79)
	want(t, got, "gpu_xid_errors_total|"+dev+"|79|"+xidMeaning(79), 1)
	want(t, got, "gpu_remapped_rows|"+dev+"|uncorrected", 2)
	want(t, got, "gpu_link_bytes_total|"+dev+"|nvlink|sent", 0) // 4 MiB at both readings
	want(t, got, "gpu_memory_reserved_bytes|"+dev, 1)
	want(t, got, "gpu_memory_bytes|"+dev, 3<<30)
	want(t, got, "gpu_memory_size_bytes|"+dev, 80<<30)
	want(t, got, "gpu_power_watts|"+dev, 123.456)
	want(t, got, "gpu_power_limit_watts|"+dev, 700)
	want(t, got, "gpu_clock_hertz|"+dev+"|graphics", 1100e6)
	want(t, got, "gpu_clock_hertz|"+dev+"|video", 1103e6)
	want(t, got, "gpu_temperature_celsius|"+dev+"|core", 44)
	want(t, got, "gpu_temperature_celsius|"+dev+"|memory", 55)
	want(t, got, "gpu_ecc_errors_total|"+dev+"|corrected", 5)
	want(t, got, "gpu_ecc_errors_total|"+dev+"|uncorrected", 6)
	want(t, got, "gpu_pcie_replays_total|"+dev, 7)
	want(t, got, "gpu_partitions|"+dev, 1)
	want(t, got, "gpu_memory_bytes|nvidia|MIG-abi|0", 1<<30)
	var p sensor.GPUPass
	if err := s.ReadGPU(&p); err != nil {
		t.Fatal(err)
	}
	for _, d := range p.Devices {
		if d.Nodes[0] != sensor.Node(195, 5) {
			t.Errorf("%s is opened by %v", d.Device, d.Nodes)
		}
	}
	if len(p.Uses) != 1 || p.Uses[0].PID != 4711 || p.Uses[0].Memory != 1<<29 || p.Uses[0].Device != "MIG-abi" {
		t.Errorf("uses %+v", p.Uses)
	}
	// Figures that a partitioned device lacks, straight from the calls.
	h, c := l.Device(0)
	if c != codeSuccess {
		t.Fatal(c)
	}
	samples := make([]utilizationSample, 4)
	if n, c := l.Samples(h, sampleGPU, 1000, samples); n != 2 || c != codeSuccess || samples[1].time != 3000 || samples[1].value[0] != 42 {
		t.Errorf("samples: %d, %v, %+v", n, c, samples)
	}
	use := make([]processSample, 2)
	if n, c := l.ProcessUse(h, 1000, use); n != 1 || c != codeSuccess || use[0] != (processSample{pid: 4711, time: 2000, sm: 30}) {
		t.Errorf("use: %d, %v, %+v", n, c, use)
	}
	if _, c := l.ProcessUse(h, 0, use[:0]); c != codeInsufficientSize {
		t.Errorf("a list that is too small: %v", c)
	}
	if gpu, memory, c := l.Utilization(h); gpu != 37 || memory != 11 || c != codeSuccess {
		t.Errorf("utilisation %d, %d, %v", gpu, memory, c)
	}
	if mj, c := l.Energy(h); mj != 9_000_000_000 || c != codeSuccess {
		t.Errorf("energy %d, %v", mj, c)
	}
	if bits, c := l.Reasons(h); bits != reasonPowerCap|1<<40 || c != codeSuccess {
		t.Errorf("reasons %#x, %v", bits, c)
	}
	if _, c := l.Fan(h); c != codeNoFunction {
		t.Errorf("a function that the library does not have: %v", c)
	}
	if _, c := l.Device(9); c != 2 {
		t.Errorf("no such device: %v", c)
	}
}

// TestABIGPM takes two samples of a MIG instance and of the whole.
func TestABIGPM(t *testing.T) {
	l := fakeLibrary(t)
	h, c := l.Device(0)
	if c != codeSuccess {
		t.Fatal(c)
	}
	if ok, c := l.GPM(h); !ok || c != codeSuccess {
		t.Fatalf("supported: %v, %v", ok, c)
	}
	var s [2]gpmSample
	for _, instance := range []uint32{wholeDevice, 1} {
		for i := range s {
			if s[i], c = l.NewGPMSample(); c != codeSuccess {
				t.Fatal(c)
			}
			if c := l.SampleGPM(h, instance, s[i]); c != codeSuccess {
				t.Fatalf("instance %d: %v", instance, c)
			}
		}
		v := make([]float64, 3)
		if c := l.GPMMetrics(s[0], s[1], []uint32{gpmTensor, gpmFP64, gpmPCIeSent}, v); c != codeSuccess || v[0] != 62.5 || !math.IsNaN(v[1]) || v[2] != 3 {
			t.Errorf("instance %d: %v, %v", instance, v, c)
		}
	}
	for i, want := range []uint32{12, 34} {
		if v, c := l.Coder(h, i == 1); v != want || c != codeSuccess {
			t.Errorf("coder %d: %d, %v", i, v, c)
		}
	}
}

// fakeLibrary opens the library that make test-nvml builds.
func fakeLibrary(t *testing.T) library {
	t.Helper()
	path := filepath.Join("testdata", "libfakenvml.so")
	if _, err := os.Stat(path); err != nil {
		t.Skip("needs testdata/libfakenvml.so, which make test-nvml builds")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := loadLibrary(path)
	if err != nil {
		t.Fatal(err)
	}
	if c := l.Init(); c != codeSuccess {
		t.Fatal(c)
	}
	return l
}

func TestNoLibrary(t *testing.T) {
	if _, err := loadLibrary("libnosuchthing.so.1"); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("got %v, want it unavailable", err)
	}
}
