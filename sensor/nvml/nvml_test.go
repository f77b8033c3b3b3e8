package nvml

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// start opens a sensor over f; next advances its clock.
func start(t testing.TB, f *fake) (s *Sensor, next func()) {
	t.Helper()
	s, err := openSensor(f, "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := time.Now()
	s.reader.now = func() time.Time { return now }
	return s, func() { now = now.Add(time.Second); f.pass() }
}

func read(t testing.TB, s *Sensor) map[string]float64 {
	t.Helper()
	var b metric.Batch
	err := s.Read(&b)
	if err != nil {
		t.Logf("read: %v", err)
	}
	out := map[string]float64{}
	for _, m := range b.Samples {
		out[strings.TrimPrefix(m.Series.Desc.Name, "reckon_")+"|"+strings.Join(m.Series.Values, "|")] = m.Value
	}
	return out
}

func want(t testing.TB, got map[string]float64, k string, v float64) {
	t.Helper()
	if g, ok := got[k]; !ok || math.Abs(g-v) > 1e-6*max(1, math.Abs(v)) {
		t.Errorf("%s: got %v (there: %v), want %v", k, g, ok, v)
	}
}

func absent(t testing.TB, got map[string]float64, part string) {
	t.Helper()
	for k, v := range got {
		if strings.Contains(k, part) {
			t.Errorf("%s is there: %v", k, v)
		}
	}
}

const first = "nvidia|GPU-00000000-0000-0000-0000-000000000000|0"

func TestSensor(t *testing.T) {
	f := farm(2, 20)
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { s, _ := start(t, f); return s }, sensortest.Options{
		Advance: func(*testing.T) { f.pass() },
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}

func TestFigures(t *testing.T) {
	f := farm(1, 4)
	s, next := start(t, f)
	read(t, s)
	for range 10 {
		next()
		if err := s.ReadGPU(new(sensor.GPUPass)); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, s)
	want(t, got, "gpu_busy_seconds_total|"+first, 8)
	want(t, got, "gpu_engine_busy_seconds_total|"+first+"|memory", 8)
	want(t, got, "gpu_energy_joules_total|"+first, 6500)
	want(t, got, "node_energy_joules_total|gpu|GPU-00000000-0000-0000-0000-000000000000|measured", 6500)
	want(t, got, "gpu_power_watts|"+first, 650)
	want(t, got, "gpu_power_limit_watts|"+first, 400)
	want(t, got, "gpu_clock_hertz|"+first+"|compute", 1001e6)
	want(t, got, "gpu_temperature_celsius|"+first+"|memory", 77)
	want(t, got, "gpu_memory_bytes|"+first, 40<<30)
	want(t, got, "gpu_throttled_seconds_total|"+first+"|power_cap", 10)
	want(t, got, "gpu_throttled_seconds_total|"+first+"|thermal", 0)
	want(t, got, "gpu_ecc_errors_total|"+first+"|corrected", 3)
	want(t, got, "gpu_info|"+first+"|NVIDIA H100 80GB HBM3|580.65.06||00000000:01:00.0|", 1)
	absent(t, got, "gpu_fan_ratio")    // not supported
	absent(t, got, "gpu_pcie_replays") // the driver's blank value
	absent(t, got, "gpu_partitions")   // it does not support MIG
}

// If the device counts its throttled time, its counter continues from the time integrated
// at ticks.
func TestThrottleCounter(t *testing.T) {
	f := farm(1, 0)
	f.gpus[0].throttle = 5e9
	s, next := start(t, f)
	read(t, s)
	next()
	f.gpus[0].throttle += 25e7
	got := read(t, s)
	want(t, got, "gpu_throttled_seconds_total|"+first+"|power_cap", 0.25)
}

func TestUses(t *testing.T) {
	f := farm(1, 0)
	g := f.gpus[0]
	g.lists[listCompute] = []processInfo{{pid: 7, memory: 1 << 30}, {pid: 8, memory: noValue64}, {pid: 0, memory: 5}}
	g.lists[listGraphics] = []processInfo{{pid: 7, memory: 2 << 30}}
	g.lists[listMPS] = []processInfo{{pid: 9, memory: 3 << 30}}
	g.uses = []processSample{{pid: 7, sm: 50}, {pid: 9, sm: 25}, {pid: 11, sm: 101}, {pid: 1 << 31, sm: 5}}
	s, next := start(t, f)
	var p sensor.GPUPass
	if err := s.ReadGPU(&p); err != nil {
		t.Fatal(err)
	}
	next()
	p.Reset()
	if err := s.ReadGPU(&p); err != nil {
		t.Fatal(err)
	}
	if len(p.Devices) != 1 || p.Devices[0].Span != 1 || math.Abs(p.Devices[0].Busy-0.8) > 1e-9 {
		t.Errorf("device %+v", p.Devices)
	}
	const all = sensor.GPUBusy | sensor.GPUMemory | sensor.GPUSampled
	d := p.Devices[0].Device
	for i, w := range []sensor.GPUUse{
		{PID: 7, Device: d, Have: all, Busy: 0.5, Memory: 2 << 30},
		{PID: 8, Device: d, Have: sensor.GPUBusy | sensor.GPUSampled},
		{PID: 9, Device: d, Have: all, Busy: 0.25, Memory: 3 << 30},
	} {
		if i >= len(p.Uses) || p.Uses[i] != w {
			t.Errorf("use %d: got %+v, want %+v", i, p.Uses, w)
		}
	}
	if len(p.Uses) != 3 {
		t.Errorf("%d uses, want 3: %+v", len(p.Uses), p.Uses)
	}
}

// A sample counts for no more than the elapsed time, whatever the driver returns.
func TestUseOfAReturningProcess(t *testing.T) {
	f := farm(1, 0)
	g := f.gpus[0]
	g.uses = []processSample{{pid: 7, sm: 100}}
	s, next := start(t, f)
	var p sensor.GPUPass
	_ = s.ReadGPU(&p)
	g.uses = nil
	for range 10 {
		next()
		_ = s.ReadGPU(&p)
	}
	g.uses = []processSample{{pid: 7, sm: 100}}
	next()
	p.Reset()
	_ = s.ReadGPU(&p)
	if len(p.Uses) != 1 || p.Uses[0].Busy != 1 {
		t.Errorf("got %+v, want one second", p.Uses)
	}
}

func TestOldDevice(t *testing.T) {
	f := farm(1, 2)
	g := f.gpus[0]
	g.noSamples, g.noEnergy, g.noUse = true, true, true
	s, next := start(t, f)
	var p sensor.GPUPass
	_ = s.ReadGPU(&p)
	next()
	p.Reset()
	if err := s.ReadGPU(&p); err != nil {
		t.Fatal(err)
	}
	if len(p.Uses) != 2 || p.Uses[0].Have != sensor.GPUMemory {
		t.Errorf("uses %+v: busy is not known", p.Uses)
	}
	next()
	got := read(t, s)
	want(t, got, "gpu_busy_seconds_total|"+first, 1.6)   // the latest value, integrated
	want(t, got, "gpu_energy_joules_total|"+first, 1300) // power, integrated
}

func TestMIG(t *testing.T) {
	f := farm(2, 0)
	g := f.gpus[0]
	g.canMIG = true
	g.mig = []*fakeGPU{{uuid: "MIG-a", model: "H100 MIG 3g.40gb", used: 1 << 30, size: 40 << 30, instance: 1,
		lists: [processLists][]processInfo{{{pid: 5, memory: 1 << 30, gpuInstance: 1}}}},
		{uuid: "MIG-b", model: "H100 MIG 4g.40gb", used: 0, size: 40 << 30, instance: 2}}
	s, next := start(t, f)
	read(t, s)
	next()
	var p sensor.GPUPass
	if err := s.ReadGPU(&p); err != nil {
		t.Fatal(err)
	}
	if len(p.Devices) != 4 || p.Devices[1].Parent != p.Devices[0].Device || p.Devices[1].Have&sensor.GPUBusy != 0 {
		t.Fatalf("devices %+v", p.Devices)
	}
	if len(p.Uses) != 1 || p.Uses[0].Device != "MIG-a" || p.Uses[0].Memory != 1<<30 || p.Uses[0].Have != sensor.GPUMemory {
		t.Errorf("uses %+v", p.Uses)
	}
	got := read(t, s)
	want(t, got, "gpu_partitions|"+first, 2)
	want(t, got, "gpu_memory_bytes|nvidia|MIG-a|0", 1<<30)
	absent(t, got, "gpu_busy_seconds_total|"+first)
	g.mig = g.mig[:1]
	next()
	read(t, s)
	if got = read(t, s); got["gpu_partitions|"+first] != 1 {
		t.Errorf("an instance was removed: got %v", got["gpu_partitions|"+first])
	}
	absent(t, got, "MIG-b")
}

func TestLostAndBack(t *testing.T) {
	f := farm(3, 3)
	s, next := start(t, f)
	read(t, s)
	f.gpus[1].lost = codeGPULost
	for range 3 {
		next()
		var p sensor.GPUPass
		err := s.ReadGPU(&p)
		if err == nil || !strings.Contains(err.Error(), "GPU 1 ") || !strings.Contains(err.Error(), "fallen off the bus") {
			t.Fatalf("got %v, want the lost device named", err)
		}
		if len(p.Devices) != 2 {
			t.Errorf("%d devices, want the two others", len(p.Devices))
		}
		m, err := s.ReadMeters(nil)
		if len(m) != 2 || err == nil {
			t.Errorf("%d meters and %v, want two and an error", len(m), err)
		}
		got := read(t, s)
		absent(t, got, "GPU-00000001")
		want(t, got, "gpu_power_watts|"+first, 650)
	}
	f.gpus[1].lost = 0
	next()
	read(t, s)
	next()
	if got := read(t, s); got["gpu_power_watts|nvidia|GPU-00000001-0000-0000-0000-000000000000|1"] != 650 {
		t.Errorf("the device is back and not read: %v", got)
	}
}

// A device that returns "unknown error" for everything is absent, though the library lists
// it and returns its name; when it is back nothing is counted for the time away.
func TestUnknownError(t *testing.T) {
	f := farm(2, 1)
	s, next := start(t, f)
	read(t, s)
	next()
	before := read(t, s)["gpu_busy_seconds_total|"+first]
	f.gpus[0].fails = codeUnknown
	for range 3 {
		next()
		got := read(t, s)
		absent(t, got, "GPU-00000000")
		if s.taken.err == nil || !strings.Contains(s.taken.err.Error(), "GPU 0 ") ||
			!strings.Contains(s.taken.err.Error(), "unknown error") {
			t.Fatalf("got %v, want the device named", s.taken.err)
		}
	}
	f.gpus[0].fails = codeSuccess
	next()
	read(t, s)
	next()
	read(t, s)
	next()
	busy, ok := read(t, s)["gpu_busy_seconds_total|"+first]
	if !ok || s.taken.err != nil || busy > before+3 {
		t.Errorf("back: busy %v after %v (%v), want no more than the seconds since, and %v", busy, before, ok, s.taken.err)
	}
}

// A driver that was unloaded and loaded again is opened again.
func TestDriverReloaded(t *testing.T) {
	f := farm(1, 1)
	s, next := start(t, f)
	read(t, s)
	f.gone, f.down = true, codeDriverNotLoaded
	for range 3 {
		next()
		absent(t, read(t, s), "gpu_")
		if s.reader.trouble == nil {
			t.Fatal("nothing is wrong without a driver")
		}
	}
	if f.gone = true; !strings.Contains(s.reader.trouble.Error(), "not loaded") {
		t.Errorf("got %v, want that the driver is not loaded", s.reader.trouble)
	}
	f.down = codeSuccess
	for range 2 {
		next()
		read(t, s)
	}
	if got := read(t, s); got["gpu_power_watts|"+first] != 650 || s.reader.trouble != nil {
		t.Errorf("after the driver was loaded: %v, %v", got, s.reader.trouble)
	}
}

func TestBlanks(t *testing.T) {
	f := farm(1, 0)
	g := f.gpus[0]
	g.mj, g.mw, g.used = 9223372036854775794, noValue32, noValue64
	g.errors, g.reasons = noValue64, noValue64
	s, _ := start(t, f)
	got := read(t, s)
	for _, name := range []string{"energy", "power_watts", "memory_bytes", "throttled"} {
		absent(t, got, "gpu_"+name)
	}
	absent(t, got, "node_energy")
	absent(t, got, "|corrected")
}

func TestHangingDriver(t *testing.T) {
	f := farm(1, 1)
	s, next := start(t, f)
	read(t, s)
	hang := make(chan struct{})
	f.hang, s.wait = hang, time.Millisecond
	next()
	for range 3 {
		if err := s.ReadGPU(new(sensor.GPUPass)); !errors.Is(err, errStalled) {
			t.Fatalf("got %v, want that the driver does not answer", err)
		}
	}
	close(hang)
	s.wait = 10 * time.Second
	answer := <-s.done // the goroutine responds again
	s.done <- answer
	if err := s.ReadGPU(new(sensor.GPUPass)); err != nil {
		t.Fatalf("the driver answers again: %v", err)
	}
}

// TestLate: a call that takes 100 ms, which is the worst that was seen of one in a hundred, does not delay a pass; what it returns is
// taken later, and after a minute without an answer the sensor counts as down.
func TestLate(t *testing.T) {
	f := farm(1, 1)
	s, next := start(t, f)
	var took []time.Duration
	for i := range 1000 {
		idle := s.flying == 0
		if !idle && len(s.done) > 0 {
			answer := <-s.done
			s.done <- answer
			idle = true
		}
		if idle {
			f.slow = 0
			if i%100 == 50 {
				f.slow = 100 * time.Millisecond
			}
			next()
		}
		began := time.Now()
		s.StartGPU(i%15 == 14, i%15 == 0)
		for time.Since(began) < 3*time.Millisecond { // the pass over processes
			runtime.Gosched()
		}
		began = time.Now()
		if err := s.ReadGPU(new(sensor.GPUPass)); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("a pass is delayed by %v, 99 of 100 by at most %v, all by at most %v", took[500], took[990], took[999])
	if took[990] > 90*time.Millisecond { // on a machine with other work
		t.Errorf("one pass in a hundred is delayed by %v", took[990])
	}
	s.awaitAnswer(time.Minute)
	s.flying, s.asked = jobTick, time.Now().Add(-maxCallTime-time.Second)
	s.StartGPU(false, false)
	if err := s.ReadGPU(new(sensor.GPUPass)); !errors.Is(err, errStalled) {
		t.Errorf("after a minute without an answer: %v", err)
	}
	s.flying = 0
}

func TestNotHere(t *testing.T) {
	for c, part := range map[code]string{codeDriverNotLoaded: "modprobe", codeNoPermission: "/dev/nvidiactl", codeVersionMismatch: "reboot"} {
		f := farm(1, 0)
		f.down = c
		if _, err := openSensor(f, "/"); !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), part) {
			t.Errorf("code %d: got %v, want it unavailable with %q", c, err, part)
		}
	}
	if _, err := openSensor(&fake{}, "/"); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("no device: got %v", err)
	}
	// A machine with a driver, but without a library that this build can open.
	root := t.TempDir()
	path := filepath.Join(root, "proc/driver/nvidia/version")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if isDriverLoaded("/") {
		t.Skip("this machine has an NVIDIA driver; TestLive reads it")
	}
	if _, err := New(root); !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), Name) {
		t.Errorf("got %v, want what is missing", err)
	}
}

// TestLive reads the GPUs of this machine, if there are any.
func TestLive(t *testing.T) {
	s, err := New("/")
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skipf("needs an NVIDIA GPU and -tags nvml: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var p sensor.GPUPass
	for range 2 {
		p.Reset()
		if err := s.ReadGPU(&p); err != nil {
			t.Error(err)
		}
	}
	got := read(t, s)
	for k, v := range got {
		t.Logf("%s %v", k, v)
	}
	for _, d := range p.Devices {
		if d.Have&sensor.GPUMemory != 0 && (d.Memory > d.MemorySize || d.MemorySize < 1<<28) {
			t.Errorf("memory of %s: %d of %d bytes", d.Device, d.Memory, d.MemorySize)
		}
	}
	sensortest.Run(t, func(t *testing.T) sensor.Sensor {
		s, err := New("/")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, sensortest.Options{})
}

func TestAllocations(t *testing.T) {
	f := farm(8, 1000)
	s, next := start(t, f)
	var p sensor.GPUPass
	var m []sensor.Meter
	tick := func() {
		next()
		p.Reset()
		_ = s.ReadGPU(&p)
		m, _ = s.ReadMeters(m[:0])
	}
	tick()
	tick()
	if n := testing.AllocsPerRun(20, tick); n != 0 {
		t.Errorf("a tick allocates %v times", n)
	}
	if len(p.Devices) != 8 || len(p.Uses) != 1000 || len(m) != 8 {
		t.Errorf("%d devices, %d uses, %d meters", len(p.Devices), len(p.Uses), len(m))
	}
}

// BenchmarkTick is our own part of a tick over eight devices and a thousand processes,
// without the time of the driver.
func BenchmarkTick(b *testing.B) {
	f := farm(8, 1000)
	s, next := start(b, f)
	var p sensor.GPUPass
	var m []sensor.Meter
	b.ReportAllocs()
	for b.Loop() {
		next()
		p.Reset()
		_ = s.ReadGPU(&p)
		m, _ = s.ReadMeters(m[:0])
	}
}

func FuzzField(f *testing.F) {
	f.Add(uint32(3), uint64(9223372036854775794))
	f.Add(uint32(5), uint64(0xffffffff))
	f.Fuzz(func(t *testing.T, kind uint32, v uint64) {
		l := fieldValue{kind: kind}
		for i := range l.value {
			l.value[i] = byte(v >> (8 * i))
		}
		if n, ok := l.toFloat(); ok && (n < 0 || n >= 1<<62) {
			t.Fatalf("kind %d, %#x: %v is taken for a value", kind, v, n)
		}
	})
}

// TestGate: power and energy that the device can not have by its limit of 400 W are absent everywhere, and named.
func TestGate(t *testing.T) {
	f := farm(1, 0)
	g := f.gpus[0]
	s, next := start(t, f)
	read(t, s)
	g.mj, g.mw = 1_000_000, 300_000
	next()
	read(t, s)
	good := read(t, s)["gpu_energy_joules_total|"+first]
	mj := g.mj
	for _, c := range []struct {
		mj uint64
		mw uint32
	}{{mj + 5_000_000, 300_000}, {mj, 900_000}, {1, 300_000}} {
		g.mj, g.mw = c.mj, c.mw
		var b metric.Batch
		err := s.Read(&b)
		if n, alone := sensor.Implausible(err); n != 1 || !alone {
			t.Errorf("%v: %v", c, err)
		}
		for _, v := range b.Samples {
			switch v.Series.Desc.Name {
			case "reckon_gpu_energy_joules_total", "reckon_node_energy_joules_total":
				if c.mj != mj || v.Value != good {
					t.Errorf("%v: %v J", c, v.Value)
				}
			case "reckon_gpu_power_watts", "reckon_node_power_watts":
				if c.mw > 800_000 {
					t.Errorf("%v: %v W", c, v.Value)
				}
			}
		}
		s.at = s.at.Add(-time.Minute)
	}
}
