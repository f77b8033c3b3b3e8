package machine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reckon/test/bench/measure"
)

const windowLength = 100 * time.Millisecond

// Stress measures how closely reckon stress and stress-ng reach a requested load. Each program runs alone. After one
// second, Stress reads the CPU clocks of the program and its descendants every 100 ms. "Off by" is the mean minus the
// target. "Deviation" is the standard deviation of the 100 ms windows. Both are in percent of one core. With -realtime
// both programs run under SCHED_RR, so that other work takes no core from them.
func Stress(ctx context.Context, e *measure.Env, args []string) error {
	f := flag.NewFlagSet("stress", flag.ContinueOnError)
	length := f.Duration("for", 20*time.Second, "how long each load is measured")
	loads := f.String("loads", "10,40,80", "loads in percent of a core")
	realtime := f.Bool("realtime", false, "run the programs under SCHED_RR (needs the privilege)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *length < time.Second {
		return fmt.Errorf("-for %s: give a second or more", *length)
	}
	row := e.Table(fmt.Sprintf("Windows of %s over %s, realtime %t", windowLength, *length, *realtime), "program", "wish", "achieved",
		"off by",
		"deviation", "other work, cores")
	for _, word := range strings.Split(*loads, ",") {
		load, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || load < 1 || load > 100 {
			return fmt.Errorf("-loads %q: give 1 to 100", word)
		}
		timeout := strconv.Itoa(int(length.Seconds()) + 4)
		for _, argv := range [][]string{
			{filepath.Join(e.Bin, "reckon"), "stress", "--quiet", "--cpu", strconv.Itoa(load) + "%", "--for", timeout + "s"},
			{"stress-ng", "--quiet", "--cpu", "1", "--cpu-load", strconv.Itoa(load), "--timeout", timeout + "s"},
		} {
			name := filepath.Base(argv[0])
			if *realtime {
				argv = append([]string{"chrt", "-r", "1"}, argv...)
			}
			r, err := inThread(func() (measuredLoad, error) { return runMeasured(ctx, argv, *length, *realtime) })
			if err != nil {
				row("%s | %d %% | left out: %v | | |", name, load, err)
				continue
			}
			row("%s | %d %% | %.2f %% | %+.2f | %.2f | %.2f", name, load, r.mean, r.mean-float64(load), r.deviation, r.others)
		}
	}
	return nil
}

// inThread runs f in a thread that ends with it.
func inThread(f func() (measuredLoad, error)) (r measuredLoad, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: its priority ends with the thread
		r, err = f()
	}()
	<-done
	return r, err
}

// measuredLoad is the load of a program, in percent of a core, and of all others, in cores.
type measuredLoad struct{ mean, deviation, others float64 }

// runMeasured runs a program and reads its clocks; it ends the program.
func runMeasured(ctx context.Context, argv []string, length time.Duration, realtime bool) (r measuredLoad, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return r, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		_ = cmd.Wait()                          // so it reports: ended by our signal
	}()
	if err := measure.Pause(ctx, time.Second); err != nil {
		return r, err
	}
	pids, err := descendantsOf(cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	used := func() (sum time.Duration) {
		for _, pid := range pids {
			sum += measure.CPUOf(pid)
		}
		return sum
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if realtime { // a late look takes part of a burst for another window's
		const schedRR = 2 // sched(7)
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: schedRR, Priority: 2}, 0); err != nil {
			return r, fmt.Errorf("SCHED_RR: %w", err)
		}
	}
	var zero unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &zero); err != nil {
		return r, err
	}
	busy, begin, first := busySeconds(), time.Now(), used()
	last, lastAt := first, begin
	var shares []float64
	for i := 1; i <= int(length/windowLength); i++ {
		next := unix.NsecToTimespec(zero.Nano() + int64(i)*int64(windowLength))
		for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &next, nil) == unix.EINTR {
		}
		now, at := used(), time.Now()
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		shares = append(shares, 100*float64(now-last)/float64(at.Sub(lastAt)))
		last, lastAt = now, at
	}
	if last == first {
		return r, errors.New("it used no CPU: did it end at once?")
	}
	took := lastAt.Sub(begin)
	r.mean = 100 * float64(last-first) / float64(took)
	for _, s := range shares {
		r.deviation += (s - r.mean) * (s - r.mean)
	}
	r.deviation = math.Sqrt(r.deviation / float64(len(shares)-1))
	r.others = max(0, (busySeconds()-busy-(last-first).Seconds())/took.Seconds())
	return r, nil
}

// descendantsOf returns a process and its descendants, by the parents in /proc/PID/stat.
func descendantsOf(root int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		// The name stands in parentheses and may hold anything.
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(f) > 1 {
			if parent, err := strconv.Atoi(f[1]); err == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// busySeconds returns the busy time of all processors since the boot (proc_stat(5)), in steps of a hundredth of a second.
func busySeconds() (sum float64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, v := range strings.Fields(line) {
		n, err := strconv.ParseFloat(v, 64)
		if err == nil && i <= 8 && i != 4 && i != 5 { // idle, iowait
			sum += n
		}
	}
	return sum / 100
}
