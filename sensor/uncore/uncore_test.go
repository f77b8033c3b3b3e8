package uncore

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// tree makes a file tree of the files below /sys/bus/event_source/devices, on a machine of two sockets. The trees here are constructed
// by the kernel's documentation and drivers (arch/x86/events/intel/uncore_snbep.c, arch/x86/events/amd/uncore.c); the types belong to events that this machine has.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(root, "sys/devices/system/cpu/cpu0/topology/physical_package_id"), "0")
	put(filepath.Join(root, "sys/devices/system/cpu/cpu1/topology/physical_package_id"), "1")
	for name, text := range files {
		put(filepath.Join(root, "sys/bus/event_source/devices", name), text)
	}
	return root
}

// imc is a channel of a server of Intel with page faults and context switches.
func imc(unit string) map[string]string {
	return map[string]string{
		unit + "/type": "1", unit + "/cpumask": "0-1", unit + "/format/event": "config:0-7", unit + "/format/umask": "config:8-15",
		unit + "/events/cas_count_read": "event=0x02", unit + "/events/cas_count_read.scale": "6.103515625e-5", unit + "/events/cas_count_read.unit": "MiB",
		unit + "/events/cas_count_write": "event=0x03,umask=0x00", unit + "/events/cas_count_write.scale": "6.103515625e-5", unit + "/events/cas_count_write.unit": "MiB",
	}
}

func join(trees ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, tr := range trees {
		maps.Copy(all, tr)
	}
	return all
}

func umc(unit string) map[string]string {
	return map[string]string{unit + "/type": "17", unit + "/cpumask": "1", unit + "/format/event": "config:0-7", unit + "/format/rdwrmask": "config:8-9"}
}

func start(t testing.TB, root string) *Sensor {
	t.Helper()
	s, err := New(root)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t testing.TB, s *Sensor) map[string]float64 {
	t.Helper()
	var b metric.Batch
	if err := s.Read(&b); err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, m := range b.Samples {
		out[strings.Join(m.Series.Values, " ")] = m.Value
	}
	return out
}

// TestBytes: what two channels count on the processor of a socket is in its bytes, and not in the other socket's.
func TestBytes(t *testing.T) {
	s := start(t, tree(t, join(imc("uncore_imc_0"), imc("uncore_imc_1"))))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, one unix.CPUSet
	one.Set(0)
	if unix.SchedGetaffinity(0, &old) != nil || unix.SchedSetaffinity(0, &one) != nil {
		t.Skip("the processor cannot be chosen")
	}
	defer func() { _ = unix.SchedSetaffinity(0, &old) }()
	before := read(t, s)
	const pages = 5000
	memory, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	after := read(t, s)
	if got := after["0 read"] - before["0 read"]; got < 2*64*pages {
		t.Errorf("socket 0 read %v bytes in two channels, want %v and what others did", got, 2*64*pages)
	}
	if len(after) != 4 {
		t.Errorf("%v", after)
	}
}

func TestSensor(t *testing.T) {
	root := tree(t, imc("uncore_imc_0"))
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { return start(t, root) }, sensortest.Options{
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		}})
}

// TestGone: a unit that counts no more takes its direction of the socket with it, and not the others.
func TestGone(t *testing.T) {
	s := start(t, tree(t, imc("uncore_imc_0")))
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := unix.Dup3(int(null.Fd()), s.events[0].fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var b metric.Batch
		if err := s.Read(&b); !errors.Is(err, unix.ENODEV) || len(b.Samples) != 3 {
			t.Errorf("%v, %d samples", err, len(b.Samples))
		}
	}
}

// TestFind: which units are read, with which events.
func TestFind(t *testing.T) {
	free := map[string]string{
		"uncore_imc_free_running_0/type": "40", "uncore_imc_free_running_0/cpumask": "0", "uncore_imc_free_running_0/format/event": "config:0-7",
		"uncore_imc_free_running_0/format/umask": "config:8-15", "uncore_imc_free_running_0/events/read": "event=0xff,umask=0x20",
		"uncore_imc_free_running_0/events/read.scale": "3.814697266e-6", "uncore_imc_free_running_0/events/read.unit": "MiB",
	}
	yitian := map[string]string{
		"ali_drw_4002d080/type": "50", "ali_drw_4002d080/cpumask": "1", "ali_drw_4002d080/format/event": "config:0-7",
		"ali_drw_4002d080/events/hif_rd": "config=0x2", "ali_drw_4002d080/events/hif_wr": "config=0x1", "ali_drw_4002d080/events/hif_rmw": "config=0x3",
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  int
		first countedEvent
	}{
		"nothing":      {nil, 0, countedEvent{}},
		"others":       {map[string]string{"cpu/type": "4", "uncore_cha_0/type": "9", "uncore_imcx/type": "9"}, 0, countedEvent{}},
		"Intel":        {imc("uncore_imc_0"), 4, countedEvent{"uncore_imc_0", 1, 2, 64, 0, "0", false}},
		"AMD":          {umc("amd_umc_3"), 2, countedEvent{"amd_umc_3", 17, 0x10a, 64, 1, "1", false}},
		"counted once": {join(imc("uncore_imc_0"), free), 1, countedEvent{"uncore_imc_free_running_0", 40, 0x20ff, 3.814697266e-6 * (1 << 20), 0, "0", false}},
		"Yitian":       {yitian, 3, countedEvent{"ali_drw_4002d080", 50, 2, 64, 1, "1", false}},
		"half a sum":   {join(yitian, map[string]string{"ali_drw_4002d080/events/hif_rmw": ""}), 1, countedEvent{"ali_drw_4002d080", 50, 2, 64, 1, "1", false}},
		"no processor": {join(umc("amd_umc_3"), map[string]string{"amd_umc_3/cpumask": ""}), 0, countedEvent{}},
		"too large":    {join(umc("amd_umc_3"), map[string]string{"amd_umc_3/format/rdwrmask": "config:8"}), 1, countedEvent{"amd_umc_3", 17, 0x10a, 64, 1, "1", false}},
		"another unit": {join(umc("amd_umc_3"), map[string]string{"amd_umc_3/format/event": "config1:0-7"}), 0, countedEvent{}},
	} {
		got := findEvents(tree(t, c.files))
		if len(got) != c.want || len(got) > 0 && got[0] != c.first {
			t.Errorf("%s: %d counts, the first of %+v, want %d and %+v", name, len(got), got, c.want, c.first)
		}
	}
	for _, root := range []string{t.TempDir(), tree(t, umc("cpu"))} {
		if _, err := New(root); !errors.Is(err, sensor.ErrUnavailable) {
			t.Errorf("without controllers: %v", err)
		}
	}
	for flags, fix := range map[string]bool{"fpu hypervisor": false, "fpu": true} {
		root := tree(t, umc("cpu"))
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "proc"), 0o755), os.WriteFile(filepath.Join(root, "proc", "cpuinfo"), []byte("flags\t\t: "+flags+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err := New(root)
		var u *sensor.UnavailableError
		if !errors.As(err, &u) || (u.Fix != "") != fix {
			t.Errorf("with %q: %v, want a remedy: %v", flags, err, fix)
		}
	}
}

// TestUnknownType: a type that the kernel does not have is no unit.
func TestUnknownType(t *testing.T) {
	start(t, tree(t, imc("uncore_imc_0"))) // skips where nobody may count
	if _, err := New(tree(t, join(umc("amd_umc_0"), map[string]string{"amd_umc_0/type": "4095"}))); !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), "no counters of memory controllers") {
		t.Errorf("of a type that the kernel does not have: %v", err)
	}
}

// TestOneDirection: a direction that the controllers do not count has no series, and no zero.
func TestOneDirection(t *testing.T) {
	one := imc("uncore_imc_0")
	delete(one, "uncore_imc_0/events/cas_count_write")
	got := read(t, start(t, tree(t, one)))
	if _, wrong := got["0 write"]; wrong || len(got) != 2 {
		t.Errorf("%v, want reads of two sockets", got)
	}
}

// TestTurns: an event that shared its counter is scaled, and one that never had it waits.
func TestTurns(t *testing.T) {
	var e openEvent
	for i, c := range []struct {
		now  [3]uint64
		want float64
	}{{[3]uint64{100, 10, 10}, 100}, {[3]uint64{150, 30, 20}, 100}, {[3]uint64{150, 40, 20}, 0}, {[3]uint64{160, 50, 25}, 40}, {[3]uint64{10, 60, 35}, 0}} {
		if got := e.scaledCount(c.now); got != c.want {
			t.Errorf("reading %d: %v, want %v", i, got, c.want)
		}
	}
}

func TestScaled(t *testing.T) {
	for in, want := range map[[2]string]float64{{"", ""}: 64, {"6.103515625e-5", "MiB"}: 64, {"32", "Bytes"}: 32, {"1", "Joules"}: 0, {"x", "MiB"}: 0, {"-1", "MiB"}: 0} {
		if got := bytesPerCount(in[0], in[1]); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("event=0x04,umask=0x03", "config:0-7,32-35")
	f.Fuzz(func(_ *testing.T, terms, format string) { encodeEvent(terms, func(string) string { return format }) })
}
