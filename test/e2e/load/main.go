// Command load does a known amount of work and prints what the kernel counted for
// it, for end-to-end tests to compare with.
//
//	load -burn 2s -procs 2000 -each 2ms -alloc 100MiB-as-bytes -for 20s
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// result is the kernel's figure for this process and its children.
type result struct {
	PID        int     `json:"pid"`
	PGID       int     `json:"pgid"`
	CPUSeconds float64 `json:"cpu_seconds"`
	Processes  int     `json:"processes"`
	Bytes      int     `json:"bytes"`
	// Of threads that ended, see threads.
	WaitSeconds float64 `json:"wait_seconds"`
	Written     uint64  `json:"written"`
	Reached     uint64  `json:"reached"`
}

func main() {
	burn := flag.Duration("burn", 0, "CPU time to use in this process")
	procs := flag.Int("procs", 0, "children to run one after the other")
	each := flag.Duration("each", 2*time.Millisecond, "CPU time of each child")
	forget := flag.Bool("forget", false, "do not wait for children: SIGCHLD is ignored")
	alloc := flag.Int("alloc", 0, "bytes to allocate and touch")
	hold := flag.Duration("hold", 0, "how long to stay at the end")
	ending := flag.Int("threads", 0, "threads that work, write and end")
	dir := flag.String("dir", "", "where they write")
	remove := flag.Bool("delete", false, "they delete what they wrote")
	flag.Parse()
	spinFor(*burn)
	var held []byte
	if *alloc > 0 {
		held = make([]byte, *alloc)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
	}
	self, err := os.Executable()
	if err != nil {
		fail(err)
	}
	if *forget {
		signal.Ignore(unix.SIGCHLD)
	}
	for range *procs {
		if err := exec.Command(self, "-burn", each.String()).Run(); err != nil && !(*forget && errors.Is(err, unix.ECHILD)) {
			fail(err)
		}
	}
	if *procs == 0 && *alloc == 0 && *hold == 0 {
		return // a child
	}
	waited, written, reached := threads(*ending, *dir, *remove)
	var own, children unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &children); err != nil {
		fail(err)
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		fail(err)
	}
	nanos := own.Utime.Nano() + own.Stime.Nano() + children.Utime.Nano() + children.Stime.Nano()
	_ = json.NewEncoder(os.Stdout).Encode(result{
		PID: os.Getpid(), PGID: unix.Getpgrp(), CPUSeconds: float64(nanos) / 1e9,
		Processes: *procs + 1, Bytes: len(held), WaitSeconds: waited, Written: written, Reached: reached,
	})
	os.Stdout.Close()
	time.Sleep(*hold)
}

// spinFor uses CPU time by the process's own clock, so that other load on the machine makes no difference.
func spinFor(d time.Duration) {
	var t unix.Timespec
	for {
		if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
			fail(err)
		}
		if time.Duration(t.Nano()) >= d {
			return
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "load:", err)
	os.Exit(1)
}
