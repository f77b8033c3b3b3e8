package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/resctrl"
)

// TestMonitors: a monitoring group is charged to the workload with its threads.
func TestMonitors(t *testing.T) {
	root := t.TempDir() // constructed by Documentation/filesystems/resctrl.rst
	put := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	counted := func(group string, bytes int) {
		for _, file := range []string{"mbm_total_bytes", "mbm_local_bytes", "llc_occupancy"} {
			put("sys/fs/resctrl/"+group+"mon_data/mon_L3_00/"+file, fmt.Sprint(bytes))
		}
	}
	put("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0")
	put("sys/devices/system/cpu/cpu0/cache/index3/id", "0")
	put("sys/fs/resctrl/info/L3_MON/num_rmids", "64")
	counted("", 0)
	const theirs = "mon_groups/theirs/"
	counted(theirs, 1000)
	put("sys/fs/resctrl/"+theirs+"tasks", threads(t))
	s, err := resctrl.New(root)
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, Config{Source: "procfs"})
	a.sensors = append(a.sensors, &sensorState{name: "resctrl", sensor: s, series: metric.NewSeries(sensorUp, "resctrl", ""), up: true})
	t.Cleanup(func() { _ = s.Close() })
	for i := range 2 {
		counted(theirs, 1000+1<<20*i)
		burn(550 * time.Millisecond) // both together are more than a hardly active group has, which exports few figures
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
		a.export(time.Now())
	}
	if moved, charged := sum(&a.batch, "reckon_workload_memory_traffic_bytes_total", "method", "resctrl"); charged != 1 || moved != 1<<20 {
		t.Errorf("%v bytes of %d workloads, want %d of one", moved, charged, 1<<20)
	}
}

// threads are the threads of this process, a line each.
func threads(t *testing.T) string {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return strings.Join(ids, "\n")
}

// TestTooFewFiles: the remedy of a source for which no more files could be opened is a higher limit, not what the
// source itself reports.
func TestTooFewFiles(t *testing.T) {
	cause := fmt.Errorf("map create: %w", syscall.EMFILE)
	err := explainFileLimit(sensor.Unavailable("the kernel does not let waits be traced", "use Linux 5.12 or later", cause))
	if reason := shortenReason(err); strings.Contains(reason, "Linux") || !strings.Contains(reason, "ulimit -n") || !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("%s", reason)
	}
	other := sensor.Unavailable("no permission", "run as root", syscall.EPERM)
	if explainFileLimit(other) != other || explainFileLimit(nil) != nil {
		t.Error("another error is changed")
	}
}

// TestReasonLabel: the label of a source that the kernel refuses names the kernel's answer, and no reason is longer than a line.
func TestReasonLabel(t *testing.T) {
	for err, want := range map[error]string{
		sensor.RefusedError("the verifier of this kernel rejects the BPF programs", "report it",
			errors.New("program walk: combined stack size of 6 calls is 576. Too large")): "the verifier of this kernel rejects the BPF programs: program walk: combined stack size of 6 calls is 576. Too large (report it)",
		sensor.Unavailable("no RAPL zones", "", syscall.ENOENT): "no RAPL zones",
		errors.Join(syscall.EIO, syscall.EBADF):                 "input/output error; bad file descriptor",
	} {
		if got := shortenReason(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := shortenReason(errors.New(strings.Repeat("x", 1000))); len(got) != maxReason {
		t.Errorf("a reason has %d bytes", len(got))
	}
}
