//go:build nvml && linux && (amd64 || arm64) && !race

package nvml

import (
	"os"
	"path/filepath"
	"testing"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// TestCalls runs the suite through real calls into a shared library. With the race
// detector the pools behind them allocate, so it is skipped there.
func TestCalls(t *testing.T) {
	path, err := filepath.Abs(filepath.Join("testdata", "libfakenvml.so"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("needs testdata/libfakenvml.so, which make test-nvml builds")
	}
	l, err := loadLibrary(path)
	if err != nil {
		t.Fatal(err)
	}
	sensortest.Run(t, func(t *testing.T) sensor.Sensor {
		s, err := openSensor(l, "/")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, sensortest.Options{})
}

// BenchmarkCall measures the overhead of a call into the library.
func BenchmarkCall(b *testing.B) {
	path, err := filepath.Abs(filepath.Join("testdata", "libfakenvml.so"))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		b.Skip("needs testdata/libfakenvml.so, which make test-nvml builds")
	}
	l, err := loadLibrary(path)
	if err != nil {
		b.Fatal(err)
	}
	h, c := l.Device(0)
	if c != codeSuccess {
		b.Fatal(c)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = l.Power(h)
	}
}
