package recording_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"reckon/sensor"
	"reckon/sensor/cgroup"
	"reckon/sensor/replay/recording"
	"reckon/sensor/task/procfs"
)

// This machine, recorded with the real sources: the recording contains this process with
// its control groups, and the raw files form a tree that the same sources can read.
func TestRecordThisMachine(t *testing.T) {
	tasks, err := procfs.New(procfs.Options{})
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	files := recording.NewCollector("/")
	files.Processes, files.Cgroups = 200, 200
	r := &recording.Recorder{Tasks: tasks, Look: procfs.Proc{}, Files: files, Scrub: recording.NewScrubber("n1")}
	groups, err := cgroup.New(cgroup.Options{})
	if err == nil {
		defer groups.Close()
		r.Cgroups = groups
	}

	var buf bytes.Buffer
	w, err := recording.NewWriter(&buf, recording.Meta{Node: "n1", Source: tasks.Name()})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Record(context.Background(), w, 2, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	t.Logf("2 passes in %d bytes", buf.Len())

	rd, err := recording.Open(bytes.NewReader(buf.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	first, err := rd.Next()
	if err != nil {
		t.Fatal(err)
	}
	me := self(first.Tasks)
	if me == nil || me.UserNanos+me.SystemNanos == 0 || me.Start == 0 {
		t.Errorf("this process is recorded as %+v", me)
	}
	want, err := os.ReadFile("/proc/self/cgroup")
	if about := first.About[int32(os.Getpid())]; err == nil && len(want) > 0 && len(about.Cgroups) == 0 {
		t.Errorf("this process has no control groups in the recording, but\n%s", want)
	}
	second, err := rd.Next()
	if err != nil {
		t.Fatal(err)
	}
	if again := self(second.Tasks); again == nil || me == nil || again.Start != me.Start || again.UserNanos+again.SystemNanos < me.UserNanos+me.SystemNanos {
		t.Errorf("second pass %+v after %+v", again, me)
	}
	if _, err := rd.Next(); err != io.EOF {
		t.Errorf("after the last pass: %v", err)
	}
	playTree(t, buf.Bytes())
}

// playTree reads the raw files as if they were the machine.
func playTree(t *testing.T, data []byte) {
	root := t.TempDir()
	if err := recording.ExtractRoot(bytes.NewReader(data), 0, root); err != nil {
		t.Fatal(err)
	}
	tree, err := procfs.New(procfs.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	var pass sensor.Pass
	if err := tree.Read(&pass); err != nil {
		t.Fatal(err)
	}
	if len(pass.Live) == 0 {
		t.Error("no process in the tree")
	}
}

func self(p *sensor.Pass) *sensor.Process {
	for i := range p.Live {
		if int(p.Live[i].PID) == os.Getpid() {
			return &p.Live[i]
		}
	}
	return nil
}
