package procfs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	prom "github.com/prometheus/procfs"

	"reckon/internal/sysfs"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

var update = flag.Bool("update", false, "write the golden files")

// recorded unpacks a recorded /proc and returns its root.
func recorded(t *testing.T) string {
	t.Helper()
	f, err := os.Open("testdata/slurm-22.05.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, filepath.Clean("/"+h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecorded(t *testing.T) {
	root := recorded(t)
	s := open(t, Options{Root: root})
	var p sensor.Pass
	if err := s.Read(&p); err != nil {
		t.Fatal(err)
	}
	other, err := prom.NewFS(filepath.Join(root, "proc"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range p.Live {
		q := p.Live[i]
		recordedAgrees(t, other, &q)
		n := q.Cgroup
		q.Cgroup = 0
		fmt.Fprintf(&b, "%+v\n", q)
		paths, _ := s.CgroupPaths(n)
		for _, c := range paths {
			fmt.Fprintf(&b, "    %s:%s\n", c.Controllers, c.Path)
		}
	}
	golden(t, "testdata/slurm-22.05.golden", b.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it); got\n%s", file, got)
	}
}

func recordedAgrees(t *testing.T, other prom.FS, p *sensor.Process) {
	t.Helper()
	proc, err := other.Proc(int(p.PID))
	if err != nil {
		t.Fatal(err)
	}
	st, err1 := proc.Stat()
	u, err2 := proc.NewStatus()
	io, err3 := proc.IO()
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string][2]uint64{
		"user": {p.UserNanos, uint64(st.UTime) * 1e7}, "system": {p.SystemNanos, uint64(st.STime) * 1e7},
		"anon": {p.Anon, u.RssAnon}, "file": {p.File, u.RssFile}, "peak": {p.PeakBytes, u.VmHWM},
		"uid": {uint64(p.UID), u.UIDs[0]}, "parent": {uint64(p.PPID), uint64(st.PPID)},
		"minflt": {p.MinorFaults, uint64(st.MinFlt)}, "start": {p.Start, st.Starttime * 1e7},
	} {
		if v[0] != v[1] {
			t.Errorf("process %d: %s is %d, prometheus/procfs says %d", p.PID, name, v[0], v[1])
		}
	}
	if p.Have&sensor.FieldIO != 0 && st.CMinFlt == 0 && (p.ReadBytes != io.ReadBytes || p.WriteBytes != io.WriteBytes) {
		t.Errorf("process %d: I/O %d %d, prometheus/procfs says %d %d", p.PID, p.ReadBytes, p.WriteBytes, io.ReadBytes, io.WriteBytes)
	}
}

func TestRecordedConformance(t *testing.T) {
	root := recorded(t)
	sensortest.RunTasks(t, func(t *testing.T) sensor.TaskSource { return open(t, Options{Root: root}) },
		sensortest.TaskOptions{Recorded: true})
}

func TestHostileStat(t *testing.T) {
	text, err := os.ReadFile("testdata/hostile-stat.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for l := range strings.Lines(string(text)) {
		quoted, err := strconv.QuotedPrefix(l)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := strconv.Unquote(quoted)
		file, err := strconv.Unquote(strings.TrimSpace(l[len(quoted):]))
		if err != nil {
			t.Fatal(err)
		}
		var st stat
		if err := parseStat([]byte(file), &st); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if string(st.comm.Bytes()) != name || st.state != 'R' || st.threads != 1 || st.start == 0 || st.kernel {
			t.Errorf("%q: %+v", name, st)
		}
		n++
	}
	if n < 10 {
		t.Errorf("%d names", n)
	}
}

// TestVanishing cuts and empties the files of a recorded process: nothing may fail.
func TestVanishing(t *testing.T) {
	root := recorded(t)
	s := open(t, Options{Root: root})
	var p sensor.Pass
	dirs, _ := filepath.Glob(filepath.Join(root, "proc/[0-9]*"))
	if err := s.Read(&p); err != nil || len(p.Live) != len(dirs) {
		t.Fatalf("%d of %d processes, %v", len(p.Live), len(dirs), err)
	}
	for i, name := range []string{"io", "status", "cgroup", "schedstat", "stat"} {
		if err := os.Remove(filepath.Join(dirs[i%len(dirs)], name)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := open(t, Options{Root: root})
	p.Reset()
	if err := fresh.Read(&p); err != nil {
		t.Fatal(err)
	}
	if len(p.Live) != len(dirs)-1 {
		t.Errorf("%d of %d processes, one without stat", len(p.Live), len(dirs))
	}
	for _, q := range p.Live {
		dir := filepath.Join(root, "proc", strconv.Itoa(int(q.PID)))
		for file, bit := range map[string]sensor.Fields{"io": sensor.FieldIO, "status": sensor.FieldMemory, "cgroup": sensor.FieldCgroup} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil && q.Have&bit != 0 {
				t.Errorf("%s of %d is missing, yet its figures are reported", file, q.PID)
			}
		}
	}
	whole, err := os.ReadFile(filepath.Join(dirs[2], "stat"))
	if err != nil {
		t.Skip("the process without stat")
	}
	if err := os.WriteFile(filepath.Join(dirs[2], "stat"), whole[:20], 0o644); err != nil {
		t.Fatal(err)
	}
	p.Reset()
	s = open(t, Options{Root: root})
	if err := s.Read(&p); err != nil || len(p.Live) == 0 {
		t.Errorf("a cut file: %v, %d processes", err, len(p.Live))
	}
	if s.firstErr == nil || !strings.Contains(s.firstErr.Error(), dirs[2]) {
		t.Errorf("the error does not name %s: %v", dirs[2], s.firstErr)
	}
	for _, dir := range dirs {
		_ = os.Remove(filepath.Join(dir, "stat"))
	}
	p.Reset()
	if err := s.Read(&p); err == nil {
		t.Error("no process at all, and no error")
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "18446744073709551615": math.MaxUint64, "007": 7} {
		if v, ok := sysfs.Unsigned([]byte(text)); !ok || v != want {
			t.Errorf("%s: %d %v", text, v, ok)
		}
	}
	for _, text := range []string{"", "-1", "18446744073709551616", "99999999999999999999", "1x", " 1", "000000000000000000001"} {
		if v, ok := sysfs.Unsigned([]byte(text)); ok {
			t.Errorf("%q is read as %d", text, v)
		}
	}
}

func TestAuxTicks(t *testing.T) {
	var aux []byte
	if strconv.IntSize == 64 {
		for _, v := range []uint64{6, 4096, 17, 250, 0, 0} {
			aux = binary.NativeEndian.AppendUint64(aux, v)
		}
		if got := auxTicks(aux); got != 250 {
			t.Errorf("%d", got)
		}
	}
	if got := auxTicks(nil); got != 100 {
		t.Errorf("%d without an entry", got)
	}
}

func TestHidepid(t *testing.T) {
	const line = "22 28 0:21 / /proc rw,nosuid shared:5 - proc proc rw,gid=4,hidepid=invisible\n"
	for text, want := range map[string]string{
		line:                                     "hidepid=invisible",
		"22 28 0:21 / /proc rw - proc proc rw\n": "",
		"22 28 0:21 / /proc rw - proc proc rw,hidepid=0\n":  "",
		"22 28 0:21 / /proc rw - proc proc rw,hidepid=2\n":  "hidepid=2",
		line + "23 22 0:22 / /proc rw - proc proc rw\n":     "",
		"22 28 0:21 / /mnt/proc rw - proc proc hidepid=2\n": "",
		"22 28 - proc\n": "",
	} {
		if got := hidepidOption([]byte(text), "/proc"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSessionID(t *testing.T) {
	for text, want := range map[string]uint32{"7": 7, "4294967294\n": 4294967294} {
		if id, ok := sessionID([]byte(text)); !ok || id != want {
			t.Errorf("%q: %d %v", text, id, ok)
		}
	}
	for _, text := range []string{"4294967295", "", "-1", "x"} {
		if id, ok := sessionID([]byte(text)); ok {
			t.Errorf("%q is session %d", text, id)
		}
	}
}

func TestEnvironmentIsBounded(t *testing.T) {
	b := append(bytes.Repeat([]byte("A=1\x00"), environmentLimit/4-2), "SLURM_JO"...)
	b = b[:environmentLimit:environmentLimit][:environmentLimit]
	copy(b[environmentLimit-8:], "KEY=4711") // cut off: the value may go on
	if got := findVariables(b, []string{"KEY", "A"}); got["KEY"] != "" || got["A"] != "1" {
		t.Errorf("%q", got)
	}
	if got := findVariables([]byte("A=1\x00KEY=4711"), []string{"KEY"}); got["KEY"] != "4711" {
		t.Errorf("%q", got)
	}
}

func TestNextRefresh(t *testing.T) {
	const second = 1_000_000_000
	for _, pid := range []int32{1, 2, 77777, math.MaxInt32} {
		start, boot := uint64(100*second), uint64(100*second)
		reads := 0
		for boot < start+3600*second {
			next := nextRefresh(boot, pid, start)
			if next <= boot || next > boot+maxRefresh+4*second {
				t.Fatalf("pid %d at age %d: next after %d", pid, boot-start, int64(next-boot))
			}
			boot = next
			reads++
		}
		if reads < 60 || reads > 75 {
			t.Errorf("%d readings in an hour", reads)
		}
	}
	if next := nextRefresh(50, 1, 100); next != 100+second {
		t.Errorf("a start in the future: %d", next)
	}
}

func TestSplit(t *testing.T) {
	for _, c := range [][3]uint64{{0, 0, 0}, {5, 0, 0}, {1e9, 3e7, 1e7}, {math.MaxUint64, 1, 1}, {7, 0, 1e7}} {
		if u, s := splitClock(c[0], c[1], c[2]); u+s != c[0] {
			t.Errorf("%v: %d + %d", c, u, s)
		}
	}
}

func TestStartBeforeTheClockOfATimeNamespace(t *testing.T) {
	for ticks, want := range map[uint64]uint64{
		0: 0, 88231: 88231,
		922337203684: 922337203684, 922337203685: 0, // 292 years of ticks, and a negative value as an unsigned number
		1844674307210: 0,
	} {
		if got := startTicks(ticks); got != want {
			t.Errorf("%d ticks: start %d, want %d", ticks, got, want)
		}
	}
}
