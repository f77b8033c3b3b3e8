package tegrastats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func busy(t *testing.T, r *Reader, now time.Time, want float64) {
	t.Helper()
	s, err := r.Read(now)
	if err != nil {
		t.Fatal(err)
	}
	if s.GPU.Busy.V != want {
		t.Errorf("busy %v, want %v", s.GPU.Busy.V, want)
	}
}

func TestReaderFollowsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stats")
	r := NewReader(path)
	defer r.Close()
	now := time.Now()
	if _, err := r.Read(now); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a file: %v", err)
	}
	appendTo(t, path, "GR3D_FREQ 1%\nGR3D_FREQ 2%\nGR3D_FRE")
	busy(t, r, now, .02)
	appendTo(t, path, "Q 3%\n")
	busy(t, r, now, .03)
	if err := os.WriteFile(path, []byte("GR3D_FREQ 4%\n"), 0o644); err != nil { // truncated
		t.Fatal(err)
	}
	now = now.Add(reopenInterval)
	busy(t, r, now, .04)
	if err := os.Rename(path, path+".1"); err != nil { // rotated
		t.Fatal(err)
	}
	appendTo(t, path, "GR3D_FREQ 5%\n")
	now = now.Add(reopenInterval)
	busy(t, r, now, .05)
	appendTo(t, path, "Segmentation fault\n"+strings.Repeat("x", 100000)+"\n")
	busy(t, r, now, .05)
	if _, err := r.Read(now.Add(Stale + time.Second)); err == nil || !strings.Contains(err.Error(), "nothing for") {
		t.Errorf("a program that has died: %v", err)
	}
	appendTo(t, path, "GR3D_FREQ 6%\n")
	busy(t, r, now.Add(time.Minute), .06)
	if n := testing.AllocsPerRun(20, func() { _, _ = r.Read(now.Add(time.Minute)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A log left behind by another run is outdated.
func TestReaderIgnoresAnOldLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stats")
	appendTo(t, path, "GR3D_FREQ 1%\n")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	r := NewReader(path)
	defer r.Close()
	if s, err := r.Read(time.Now()); err == nil {
		t.Errorf("got %v", s.GPU)
	}
}

func TestReaderNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes here: ", err)
	}
	r := NewReader(path)
	defer r.Close()
	now := time.Now()
	if _, err := r.Read(now); err == nil {
		t.Error("nobody has written")
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("GR3D_FREQ 7%\n"); err != nil {
		t.Fatal(err)
	}
	busy(t, r, now, .07)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(now.Add(Stale + time.Second)); err == nil {
		t.Error("the writer has gone")
	}
}
