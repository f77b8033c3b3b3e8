package files

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/netfs/nfstest"
)

// TestMain is also the program that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "use" {
		if err := use(os.Args[2], os.Args[3] == "changes"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// What the program does.
const (
	stats, fstats, opens, reads, writes, changes, listings = 1000, 500, 200, 300, 100, 10, 20
	readSize, writeSize                                    = 4096, 1000
)

// did is how often it calls what counts as metadata: beside its files and its directory, listings begin with an open and end
// with one that finds nothing more.
func did(changing bool) uint64 {
	n := uint64(stats + fstats + opens + 1)
	if changing {
		n += changes*8 + listings*3
	}
	return n
}

func use(dir string, changing bool) error {
	fd, err := unix.Open(dir+"/f", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	buf := make([]byte, readSize)
	steps := []struct {
		n  int
		do func(i int) error
	}{
		{stats, func(int) error { return unix.Stat(dir+"/f", &st) }},
		{fstats, func(int) error { return unix.Fstat(fd, &st) }},
		{opens, func(int) error {
			fd, err := unix.Open(dir+"/f", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}},
		{writes, func(i int) error { _, err := unix.Pwrite(fd, buf[:writeSize], int64(i)*writeSize); return err }},
		{reads, func(i int) error { _, err := unix.Pread(fd, buf, int64(i)*100); return err }},
	}
	if changing {
		steps = append(steps, struct {
			n  int
			do func(i int) error
		}{changes, func(i int) error {
			a, b := fmt.Sprintf("%s/%d-%d", dir, os.Getpid(), i), fmt.Sprintf("%s/%d+%d", dir, os.Getpid(), i)
			return errors.Join(unix.Mkdir(a, 0o755), unix.Rename(a, b), unix.Chmod(b, 0o700), unix.Rmdir(b), unix.Symlink("x", a), unix.Link(a, b), unix.Unlink(a), remove(b))
		}}, struct {
			n  int
			do func(i int) error
		}{listings, func(int) error { return list(dir) }})
	}
	for _, s := range steps {
		for i := range s.n {
			if err := s.do(i); err != nil {
				return err
			}
		}
	}
	return unix.Close(fd)
}

// remove removes the rest of a change: it is the eighth call of it.
func remove(path string) error { return unix.Unlink(path) }

func list(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := make([]byte, 1<<16)
	for {
		if n, err := unix.Getdents(fd, buf); err != nil || n == 0 {
			return err
		}
	}
}

func open(t testing.TB, o Options) *Source {
	t.Helper()
	s, err := Open(o)
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t testing.TB, s *Source, p *sensor.TallyPass) {
	t.Helper()
	if err := s.Read(p); err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, dir, what string) int32 {
	t.Helper()
	c := exec.Command("/proc/self/exe", "use", dir, what)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return int32(c.Process.Pid)
}

// used adds up what a process did on a mount.
func used(p *sensor.TallyPass, pid int32, m mountID) (u callCounts) {
	for i := range p.Rows {
		if x := &p.Rows[i]; x.PID == pid && p.NameOf(x.Name) == m.name() {
			(*[valuesPerMount]uint64)(unsafe.Pointer(&u))[x.Series] += x.Amount
		}
	}
	return u
}

func expect(t *testing.T, what string, got callCounts, changing bool, times uint64) {
	t.Helper()
	want := callCounts{Bytes: [2]uint64{reads * readSize * times, writes * writeSize * times}}
	want.Operations = [3]uint64{reads * times, writes * times, did(changing) * times}
	got.Nanos = want.Nanos
	if got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// tmpfs mounts one with a file.
func tmpfs(t testing.TB, source string) (dir string, m mountID) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount(source, dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("mount a file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return file(t, dir), mountID{Type: "tmpfs", Source: source, Local: true}
}

func file(t testing.TB, dir string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// disk mounts an ext4 file system of a loop device.
func disk(t testing.TB) (dir string, m mountID) {
	t.Helper()
	make, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		if make, err = exec.LookPath("mke2fs"); err != nil {
			t.Skip("nothing makes ext4 file systems here")
		}
	}
	place := t.TempDir()
	image := filepath.Join(place, "image")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(make, "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no loop devices: ", err)
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		t.Skip("no loop devices: ", err)
	}
	device := fmt.Sprintf("/dev/loop%d", n)
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Skip("no loop devices: ", err)
	}
	defer loop.Close()
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_FD, int(f.Fd())); err != nil {
		t.Skip("no loop devices: ", err)
	}
	t.Cleanup(func() {
		if loop, err := os.OpenFile(device, os.O_RDWR, 0); err == nil {
			_ = unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_CLR_FD, 0)
			_ = loop.Close()
		}
	})
	dir = filepath.Join(place, "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(device, dir, "ext4", 0, ""); err != nil {
		t.Skip("no ext4: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return file(t, dir), mountID{Type: "ext4", Source: device, Local: true}
}

// Every call of a process that ended between two readings is charged to it, by file system, without times.
func TestLocal(t *testing.T) {
	s := open(t, Options{All: true})
	if _, err := s.Missing(); err != nil {
		t.Error(err)
	}
	where := map[string]func(testing.TB) (string, mountID){
		"tmpfs": func(t testing.TB) (string, mountID) { return tmpfs(t, "one dir") }, "ext4": disk,
	}
	for name, mount := range where {
		t.Run(name, func(t *testing.T) {
			dir, m := mount(t)
			var p sensor.TallyPass
			read(t, s, &p)
			p.Reset()
			pid := run(t, dir, "changes")
			read(t, s, &p)
			read(t, s, &p)
			got := used(&p, pid, m)
			expect(t, name, got, true, 1)
			if got.Nanos != [3]uint64{} {
				t.Errorf("calls on a local file system took %v ns", got.Nanos)
			}
		})
	}
}

// Processes that take turns on file systems keep their own calls, while it is read without pause.
func TestTogether(t *testing.T) {
	s := open(t, Options{All: true})
	one, first := tmpfs(t, "one")
	two, second := tmpfs(t, "two")
	var p sensor.TallyPass
	read(t, s, &p)
	p.Reset()
	type started struct {
		*exec.Cmd
		mount mountID
	}
	var all []started
	for i := range 8 {
		dir, m := one, first
		if i%2 == 1 {
			dir, m = two, second
		}
		c := exec.Command("/proc/self/exe", "use", dir, "changes")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, started{c, m})
	}
	done := make(chan error, 1)
	go func() {
		var errs []error
		for _, c := range all {
			errs = append(errs, c.Wait())
		}
		done <- errors.Join(errs...)
	}()
	for ended := false; !ended; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			ended = true
		default:
		}
		read(t, s, &p)
	}
	read(t, s, &p)
	if n := s.Missed(); n > 0 {
		t.Logf("%d calls interrupted a program", n)
	}
	for _, c := range all {
		expect(t, c.mount.Source, used(&p, int32(c.Process.Pid), c.mount), true, 1)
	}
}

// Calls on a file system across the network are counted with their times once one is mounted; local ones are not.
func TestAcross(t *testing.T) {
	s := open(t, Options{})
	dir, m := t.TempDir(), mountID{Type: "fuse.test", Source: "host:/dir"}
	near, local := tmpfs(t, "near")
	if s.table == nil {
		t.Log("there is another file system across the network")
	} else if len(s.links) > 0 {
		t.Error("programs are attached though there is nothing to count")
	}
	serveFUSE(t, dir, m.Source)
	var p sensor.TallyPass
	read(t, s, &p)
	if s.table != nil {
		t.Fatal("the mount was not noticed")
	}
	p.Reset()
	pid, other := run(t, dir, "nothing"), run(t, near, "changes")
	read(t, s, &p)
	got := used(&p, pid, m)
	expect(t, "FUSE", got, false, 1)
	for i, n := range got.Nanos {
		if n == 0 {
			t.Errorf("operation %d took no time", i)
		}
	}
	if got := used(&p, other, local); got != (callCounts{}) {
		t.Errorf("local calls were counted: %+v", got)
	}
}

// Calls on NFS are counted as those on every file system across the network: of processes that ended between two readings, with
// their times, apart from what the threads of the server do.
func TestNFS(t *testing.T) {
	s := open(t, Options{})
	dir, m := file(t, nfstest.Mounted(t, "")), mountID{Type: "nfs", Source: nfstest.Source}
	for _, what := range []string{"changes", "nothing"} {
		var p sensor.TallyPass
		read(t, s, &p)
		p.Reset()
		pid := run(t, dir, what)
		read(t, s, &p)
		read(t, s, &p)
		got := used(&p, pid, m)
		expect(t, "NFS, "+what, got, what == "changes", 1)
		for i, n := range got.Nanos {
			if n == 0 {
				t.Errorf("operation %d took no time", i)
			}
		}
		for _, r := range p.Rows {
			if p.NameOf(r.Name) != m.name() {
				t.Errorf("%+v was counted", r)
			}
		}
	}
}

// Accounts of processes that ended are freed.
func TestEnds(t *testing.T) {
	s := open(t, Options{All: true})
	dir, _ := tmpfs(t, "ends")
	pid := run(t, dir, "nothing")
	var p sensor.TallyPass
	for range 3 {
		read(t, s, &p)
	}
	var key uint32
	var value []byte
	for it := s.accounts.Map.Iterate(); it.Next(&key, &value); {
		if int32(key) == pid {
			t.Error("the account of a process that ended is still there")
		}
	}
	if _, ok := any(noProcess).(uint32); !ok {
		t.Error("no account of nobody")
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Read(&p); err == nil {
		t.Error("a source that is closed was read")
	}
}

// Every mount is noticed, once.
func TestChanged(t *testing.T) {
	table, err := mountTable("/")
	if err != nil {
		t.Skip("no table of mounts: ", err)
	}
	defer table.Close()
	if err := table.SetReadDeadline(time.Time{}); !errors.Is(err, os.ErrNoDeadline) {
		t.Error("the runtime polls the table, and takes what is to be noticed")
	}
	mountsChanged(table) // others may have mounted something
	for i := range 20 {
		tmpfs(t, "noticed")
		if !mountsChanged(table) {
			t.Fatalf("mount %d was not noticed", i)
		}
	}
}

// A table of mounts shows whether there is anything across the network.
func TestRemote(t *testing.T) {
	const none = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:25 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n"
	for _, c := range []struct {
		table string
		want  bool
	}{
		{none, false},
		{none + "44 22 0:45 / /home rw shared:1 - nfs4 fs:/home rw\n", true},
		{none + "44 22 0:45 / /a\\040-\\040b rw - fuse.sshfs u@h: rw\n", true},
		{none + "44 22 0:45 / /a rw - fuse.sshfs u@h: rw\n", true},
		{none + "44 22 0:45 / /l rw - lustre 10.0.0.1@tcp:/l rw\n", true},
		{"", false},
	} {
		if got, err := hasRemoteMount(strings.NewReader(c.table)); got != c.want || err != nil {
			t.Errorf("%q: %v, %v", c.table, got, err)
		}
	}
}

// TestNeedless: what can not be counted is only missed where it is mounted, or was asked for.
func TestNeedless(t *testing.T) {
	root := t.TempDir()
	table := filepath.Join(root, "proc", "1", "mountinfo")
	if err := os.MkdirAll(filepath.Dir(table), 0o755); err != nil {
		t.Fatal(err)
	}
	const (
		disk = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
		nfs  = "40 22 0:40 / /home rw shared:2 - nfs4 server:/home rw\n"
		fuse = "41 22 0:41 / /data rw shared:3 - fuse.sshfs host:/ rw\n"
	)
	refused := sensor.Unavailable("refused", "do this", nil)
	for _, tt := range []struct {
		name, mounts string
		options      Options
		err          error
		needed       bool
	}{
		{"a disk", disk, Options{}, refused, false},
		{"NFS", disk + nfs, Options{}, refused, true},
		{"FUSE", disk + fuse, Options{}, refused, true},
		{"all is asked for", disk, Options{All: true}, refused, true},
		{"another fault", disk, Options{}, os.ErrClosed, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(table, []byte(tt.mounts), 0o600); err != nil {
				t.Fatal(err)
			}
			tt.options.Root = root
			err := withoutRemedy(tt.options, tt.err)
			var u *sensor.UnavailableError
			if got := !errors.As(err, &u) || u.Fix != ""; got != tt.needed || !errors.Is(err, tt.err) {
				t.Errorf("got %v, want the remedy: %v", err, tt.needed)
			}
		})
	}
}
