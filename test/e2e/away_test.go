//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/store/storetest"
)

// The series are here and the catalogue is in a PostgreSQL that is away for a minute while late data are taken in: first without a
// word, then refusing connections, and the server is killed and started before it is back. Nothing is lost and nothing counted twice.
func TestDatabaseAway(t *testing.T) {
	fresh, run := storetest.Postgres(t, "pgx")
	run()
	u, err := url.Parse(fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	real, db := u.Host, newWire(t)
	db.lead(real)
	u.Host = db.ln.Addr().String()
	data := t.TempDir()
	serve := func() *up { return startServe(t, data, "--catalogue", u.String(), "--retention", "24h") }
	s := serve()
	door := newWire(t)
	door.lead(s.addr)
	sender := lateData(t, door, 2*time.Hour) // two minutes
	pause(20 * time.Second)
	db.hold()
	pause(time.Minute)
	db.lead(real)
	pause(15 * time.Second)
	db.lead("")
	pause(5 * time.Second)
	kill(t, s.cmd, syscall.SIGKILL)
	_ = s.cmd.Wait() // killed
	// It does not start without its catalogue, or starts and reports it.
	db.lead(real)
	s = serve()
	door.lead(s.addr)
	if err := sender.Wait(); err != nil {
		t.Errorf("the sender: %v\n%s", err, s.out)
	}
	proven(t, s)
}

// The disk is filled while late data are taken in and hours are made, the server is killed on the full disk and started again, and then there is
// room: what was refused is sent again, and usage is what the counters report.
func TestFullDiskWhileHoursAreMade(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=400m"); err != nil {
		t.Skipf("a disk of its own cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	data := filepath.Join(dir, "data")
	s := startServe(t, data)
	door := newWire(t)
	door.lead(s.addr)
	sender := lateData(t, door, 2*time.Hour)
	pause(25 * time.Second)
	full := filepath.Join(dir, "full")
	fill(t, full)
	pause(20 * time.Second)
	kill(t, s.cmd, syscall.SIGKILL)
	_ = s.cmd.Wait() // killed
	s = startServe(t, data)
	door.lead(s.addr)
	pause(10 * time.Second)
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if err := sender.Wait(); err != nil {
		t.Errorf("the sender: %v\n%s", err, s.out)
	}
	proven(t, s)
}

// fill writes until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block, written := make([]byte, 1<<20), 0
	for size := len(block); size > 0; {
		n, err := f.Write(block[:size])
		if written += n; err != nil {
			size /= 2
		}
	}
	if written == 0 {
		t.Fatal(fmt.Errorf("nothing fits on the disk"))
	}
}
