package account

import (
	"testing"

	"reckon/sensor"
	"reckon/workload"
)

// TestZombies: a process counts once it has been dead for a minute, by its owner, and
// only while it exists.
func TestZombies(t *testing.T) {
	owners := map[int32]string{10: "alice", 11: "alice", 12: "bob", 13: "bob"}
	r := newRig(t, Config{Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		return Identified{Identity: workload.Identity{Workload: workload.MakeID(workload.Group, "n1/"+owners[p.PGID]), Owner: owners[p.PGID]}}
	}})
	z := func(pid int32, threads uint32) sensor.Process {
		p := proc(pid, pid, 5*second, second)
		p.State, p.Threads = 'Z', threads
		return p
	}
	alive := proc(13, 13, 5*second, second)
	// 12 has a dead leader and a thread that works on: no zombie.
	all := []sensor.Process{z(10, 1), z(11, 0), z(12, 2), alive}
	for range 60 {
		r.tick(0, all)
	}
	r.export()
	if v, ok := r.values["reckon_zombie_processes|alice"]; ok {
		t.Fatalf("counted after less than a minute: %v", v)
	}
	r.tick(0, all)
	r.tick(0, all)
	r.export()
	r.want("zombies of alice", r.values["reckon_zombie_processes|alice"], 2)
	if _, ok := r.values["reckon_zombie_processes|bob"]; ok {
		t.Fatal("a process with a thread that runs counts as a zombie")
	}
	if n := testing.AllocsPerRun(20, func() { r.tick(0, all) }); n != 0 {
		t.Errorf("a tick with zombies allocates %v times", n)
	}

	// A live process reuses its id: it is not a zombie, and its own death counts from the beginning.
	again := z(10, 1)
	again.Start = 900 * second
	r.tick(0, []sensor.Process{again, z(11, 0), alive})
	r.export()
	r.want("zombies after one was waited for", r.values["reckon_zombie_processes|alice"], 1)
	r.tick(0, []sensor.Process{alive})
	r.export()
	if v, ok := r.values["reckon_zombie_processes|alice"]; !ok || v != 0 {
		t.Fatalf("all were waited for: %v, %v, want a last sample of 0", v, ok)
	}
	r.export()
	if _, ok := r.values["reckon_zombie_processes|alice"]; ok {
		t.Fatal("the series goes on after its end")
	}
}
