package ebpf

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// TestClaimedOnce tests that a process is reported once that ended between two readings, though the
// kernel reports it twice: when it was waited for, if it is asked then, and when it is freed.
func TestClaimedOnce(t *testing.T) {
	record := func(kind uint32, pid int32, start uint64) []byte {
		return process(tasksProcess{Kind: kind, Pid: pid, Start: start})
	}
	s := bare()
	tell := func(want int, what string, b []byte, ring bool) {
		t.Helper()
		if ring {
			s.handleRecord(b)
		} else if err := s.parseRecords(b); err != nil {
			t.Fatal(err)
		}
		if len(s.done) != want {
			t.Errorf("%s: %d ends are reported, want %d", what, len(s.done), want)
		}
	}
	tell(1, "claimed", record(kindClaim, 5, 100), false)
	tell(1, "claimed again, as it is not freed yet", record(kindClaim, 5, 100), false)
	tell(1, "freed", record(kindExit, 5, 100), true)
	tell(2, "freed without a claim", record(kindExit, 6, 100), true)
	tell(3, "claimed", record(kindClaim, 7, 100), false)
	tell(4, "the next with the same id is freed", record(kindExit, 7, 900), true)
	tell(5, "claimed", record(kindClaim, 8, 100), false)
	tell(6, "the next with the same id is claimed", record(kindClaim, 8, 900), false)
	if len(s.claimed) != 2 {
		t.Errorf("%d are remembered", len(s.claimed))
	}
	s.pass += 65
	if s.tidyClaimed(); len(s.claimed) != 0 {
		t.Errorf("%d are remembered for ever", len(s.claimed))
	}
}

// TestNewbornsWait starts and ends a process group between the reading of the table and the reading of
// the ends, as happens on a busy machine. Its ends wait for the next pass: without its
// leader nobody would know by which name the group goes.
func TestNewbornsWait(t *testing.T) {
	s := openExits(t)
	var p sensor.Pass
	read(t, s, &p)
	var group *exec.Cmd
	s.afterWalk = func() {
		group = exec.Command("sh", "-c", "(:); (:); :")
		group.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := group.Run(); err != nil {
			t.Fatal(err)
		}
	}
	read(t, s, &p)
	s.afterWalk = nil
	of := func() (n int) {
		for i := range p.Exited {
			if p.Exited[i].PGID == int32(group.Process.Pid) {
				n++
			}
			if p.Exited[i].Start > p.Boot {
				t.Errorf("%d began at %d, after the pass at %d", p.Exited[i].PID, p.Exited[i].Start, p.Boot)
			}
		}
		return n
	}
	if n := of(); n != 0 {
		t.Errorf("%d ends are reported of a group that began after the table was read", n)
	}
	reported := 0
	for range 300 {
		if read(t, s, &p); reported == 0 && of() > 0 && gonePID(&p, group.Process.Pid) == nil {
			t.Error("the ends of the children are reported before that of the leader")
		}
		if reported += of(); reported == 3 {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	t.Errorf("%d ends are reported, want those of the leader and two children", reported)
}

// TestLeadersUnderLoad starts process groups on a machine that has more to do than it can: the
// ends of children never come in a pass before their leader was reported, alive or ended, and
// nobody is lost.
func TestLeadersUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of all processors")
	}
	s := openExits(t)
	var p sensor.Pass
	read(t, s, &p)
	burner := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (while :; do :; done) & done; wait")
	burner.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := burner.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() {
		_ = unix.Kill(-burner.Process.Pid, unix.SIGKILL)
		_ = burner.Wait()
	}()
	const groups, children = 30, 10
	done := make(chan *exec.Cmd, groups)
	go func() {
		for range groups {
			c := exec.Command("sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done", children))
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			_ = c.Run()
			done <- c
		}
	}()
	var ours []int32
	leaders, orphans := make(map[int32]bool), make(map[int32]int)
	ends := make(map[int32]int)
	for settle := 0; len(ours) < groups || settle < 200; {
		select {
		case c := <-done:
			if c.Process == nil || !c.ProcessState.Success() {
				t.Fatalf("%v: %v", c, c.ProcessState)
			}
			ours = append(ours, int32(c.Process.Pid))
		default:
		}
		read(t, s, &p)
		for _, list := range [][]sensor.Process{p.Live, p.Exited} {
			for i := range list {
				if q := &list[i]; q.PID == q.PGID {
					leaders[q.PID] = true
				}
			}
		}
		for i := range p.Exited {
			q := &p.Exited[i]
			if ends[q.PGID]++; !leaders[q.PGID] {
				orphans[q.PGID]++
			}
		}
		if len(ours) == groups {
			settle++
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 2e6}, nil)
	}
	for _, pgid := range ours {
		if ends[pgid] != children+1 || orphans[pgid] != 0 {
			t.Errorf("group %d: %d ends are reported of %d, %d of them before anybody saw the leader", pgid, ends[pgid], children+1, orphans[pgid])
		}
	}
}

func TestRoom(t *testing.T) {
	for cpus, want := range map[uint32][2]uint32{
		1: {1 << 20, 4288}, 4: {1 << 20, 4864}, 5: {2 << 20, 5056}, 64: {16 << 20, 16384}, 128: {16 << 20, 28672}, 65535: {16 << 20, 102400},
	} {
		if ring, ending := recordRoom(cpus); ring != want[0] || ending != want[1] {
			t.Errorf("%d processors: %d and %d, want %d", cpus, ring, ending, want)
		}
	}
}
