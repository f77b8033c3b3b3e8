package textfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/sensortest"
)

func read(s *Sensor) map[string]string {
	var p sensor.OwnPass
	s.ReadOwn(&p)
	out := map[string]string{}
	for _, m := range p.Samples {
		text := fmt.Sprint(m.Value)
		if o := m.Origin; o != nil {
			text += fmt.Sprintf(" uid=%d trusted=%t of=%s", o.UID, o.Trusted, o.Workload)
		}
		out[sensortest.Key(m.Series)] = text
	}
	for _, in := range p.Inputs {
		if in.Err != nil {
			out["! "+filepath.Base(in.Name)] = in.Err.Error()
		}
	}
	return out
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".tmp", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		t.Fatal(err)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := New([]Folder{{Dir: dir}, {Dir: filepath.Join(dir, "none")}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	self := os.Geteuid()
	mine := fmt.Sprintf("uid=%d trusted=true", self)
	a := filepath.Join(dir, "a.prom")
	write(t, a, "# TYPE backup_seconds gauge\nbackup_seconds 812\nloss{workload=\"slurm/7\",phase=\"x\"} 0.5\n")
	write(t, filepath.Join(dir, "b.txt"), "ignored 1\n")
	write(t, filepath.Join(dir, "broken.prom"), "fine 1\nsecret root password\n")
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.prom"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere/x.prom", filepath.Join(dir, "link.prom")); err != nil {
		t.Fatal(err)
	}
	got := read(s)
	_ = os.Remove(filepath.Join(dir, "link.prom"))
	want := map[string]string{
		`backup_seconds{}`:             "812 " + mine + " of=",
		`loss{phase="x"}`:              "0.5 " + mine + " of=slurm/7",
		`node_textfile_scrape_error{}`: "1",
		"! broken.prom": "line 2: there is more than a value behind the name; time stamps are not taken, and label " +
			"values stand in double quotes",
		"! pipe.prom": "it is no plain file",
		"! link.prom": "it is a link to /nowhere/x.prom, which does not exist",
		"! none":      "there is no such folder; make it, or leave it out of the configuration",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %q, want %q", k, got[k], v)
		}
	}
	if _, ok := got[fmt.Sprintf("node_textfile_mtime_seconds{file=%q}", a)]; !ok || len(got) != len(want)+1 {
		t.Errorf("got %v", got)
	}

	// A replaced file is read again, a deleted one leaves nothing.
	write(t, a, "backup_seconds 13\n")
	for _, name := range []string{"broken.prom", "pipe.prom"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "none"), 0o755); err != nil {
		t.Fatal(err)
	}
	got = read(s)
	if got["backup_seconds{}"] != "13 "+mine+" of=" || got["node_textfile_scrape_error{}"] != "0" || len(got) != 3 {
		t.Errorf("got %v", got)
	}

	// An old one is left out.
	old := time.Now().Add(-49 * time.Hour)
	if err := os.Chtimes(a, old, old); err != nil {
		t.Fatal(err)
	}
	got = read(s)
	if len(got) != 2 || !strings.Contains(got["! a.prom"], "more than 48h0m0s ago; write it again") {
		t.Errorf("got %v", got)
	}
	s.folders[0].MaxAge = -1
	if got = read(s); got["backup_seconds{}"] == "" {
		t.Errorf("got %v", got)
	}
}

// Files and links of other users are restricted to workloads of those users.
func TestOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	dir := t.TempDir()
	s, err := New([]Folder{{Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "token 42\n")
	write(t, filepath.Join(dir, "own.prom"), "m 1\n")
	for name, uid := range map[string]int{"theirs.prom": 1234, "ours.prom": 0} {
		if err := os.Symlink(secret, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(filepath.Join(dir, name), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(dir, "own.prom"), 1234, 1234); err != nil {
		t.Fatal(err)
	}
	got := read(s)
	if got["m{}"] != "1 uid=1234 trusted=false of=" || got["token{}"] != "42 uid=0 trusted=true of=" ||
		!strings.Contains(got["! theirs.prom"], "a link that another user made") {
		t.Errorf("got %v", got)
	}
}

func TestDescs(t *testing.T) {
	for _, d := range Descs() {
		for _, problem := range sensortest.Lint(d, true) {
			t.Errorf("%s: %s", d.Name, problem)
		}
	}
	if _, err := New(nil); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := New([]Folder{{Dir: "here"}}); err == nil || errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func BenchmarkUnchanged(b *testing.B) {
	dir := b.TempDir()
	for i := range 20 {
		var text strings.Builder
		for j := range 50 {
			fmt.Fprintf(&text, "m%d{n=\"%d\"} %d\n", i, j, j)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.prom", i)), []byte(text.String()), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s, err := New([]Folder{{Dir: dir}})
	if err != nil {
		b.Fatal(err)
	}
	var p sensor.OwnPass
	b.ReportAllocs()
	for b.Loop() {
		p.Reset()
		s.ReadOwn(&p)
	}
	if len(p.Samples) != 20*51+1 {
		b.Fatal(len(p.Samples))
	}
}
