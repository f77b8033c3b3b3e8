// Command stress measures, from outside and in one run, how near `reckon stress` and
// stress-ng come to the CPU load that they are asked for.
//
// Each program runs alone. After a second its CPU clock and those of its descendants
// (clock_gettime(2), clock_getcpuclockid(3), nanoseconds) are read every 100 ms.
// "Off by" is the mean over the whole time less the wish, "deviation" the standard
// deviation of the windows, both in points of one core. What the rest of the machine
// did meanwhile stands beside it: only on an idle core do the figures speak of the
// program. -realtime runs both under SCHED_RR, so that other work takes no core from
// them. A program that is not there is named and left out.
//
//	go run ./test/bench/stress -bin bin
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "stress:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	f := flag.NewFlagSet("stress", flag.ContinueOnError)
	bin := f.String("bin", "bin", "folder of reckon")
	length := f.Duration("for", 20*time.Second, "how long each load is measured")
	loads := f.String("loads", "10,40,80", "loads in percent of a core")
	realtime := f.Bool("realtime", false, "run the programs under SCHED_RR (needs the privilege)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *length < time.Second {
		return fmt.Errorf("-for %s: give a second or more", *length)
	}
	reckon, err := filepath.Abs(filepath.Join(*bin, "reckon"))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s on %d CPUs, windows of %s over %s, realtime %t\n\n", runtime.GOARCH, runtime.NumCPU(), window, *length, *realtime)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "program\twish\tachieved\toff by\tdeviation\tother work (cores)\t")
	for _, word := range strings.Split(*loads, ",") {
		load, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || load < 1 || load > 100 {
			return fmt.Errorf("-loads %q: give 1 to 100", word)
		}
		timeout := strconv.Itoa(int(length.Seconds()) + 4)
		for _, argv := range [][]string{
			{reckon, "stress", "--quiet", "--cpu", strconv.Itoa(load) + "%", "--for", timeout + "s"},
			{"stress-ng", "--quiet", "--cpu", "1", "--cpu-load", strconv.Itoa(load), "--timeout", timeout + "s"},
		} {
			if *realtime {
				argv = append([]string{"chrt", "-r", "1"}, argv...)
			}
			m, err := measureAlone(ctx, argv, *length, *realtime)
			if err != nil {
				fmt.Fprintf(w, "left out: %s: %v\n", strings.Join(argv[:min(len(argv), 4)], " "), err)
				continue
			}
			fmt.Fprintf(t, "%s\t%d %%\t%.2f %%\t%+.2f\t%.2f\t%.2f\t\n", m.name, load, m.mean, m.mean-float64(load), m.deviation, m.others)
		}
	}
	return t.Flush()
}

const schedRR = 2 // sched(7)

// measureAlone measures in a thread that ends with it.
func measureAlone(ctx context.Context, argv []string, length time.Duration, realtime bool) (r result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err = measure(ctx, argv, length, realtime)
	}()
	<-done
	return r, err
}

const window = 100 * time.Millisecond

type result struct {
	name            string
	mean, deviation float64 // percent of a core
	others          float64 // cores
}

// measure runs a program and reads its clocks; it ends the program.
func measure(ctx context.Context, argv []string, length time.Duration, realtime bool) (result, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		_ = cmd.Wait()                          // so it says: ended by our signal
	}()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return result{}, ctx.Err()
	}
	pids, err := family(cmd.Process.Pid)
	if err != nil {
		return result{}, err
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
	if err != nil {
		return result{}, err
	}
	runtime.LockOSThread() // never unlocked: its priority ends with the thread
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if realtime { // a late look takes part of a burst for another window's
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: schedRR, Priority: 2}, 0); err != nil {
			return result{}, fmt.Errorf("SCHED_RR: %w", err)
		}
	}
	busy, err := busySeconds()
	if err != nil {
		return result{}, err
	}
	var zero unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &zero); err != nil {
		return result{}, err
	}
	begin := time.Now()
	first := cpu(pids)
	last, lastAt := first, begin
	var shares []float64
	for i := 1; i <= int(length/window); i++ {
		next := unix.NsecToTimespec(zero.Nano() + int64(i)*int64(window))
		for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &next, nil) == unix.EINTR {
		}
		now, at := cpu(pids), time.Now()
		if ctx.Err() != nil {
			return result{}, ctx.Err()
		}
		shares = append(shares, 100*float64(now-last)/float64(at.Sub(lastAt)))
		last, lastAt = now, at
	}
	after, err := busySeconds()
	if err != nil {
		return result{}, err
	}
	if last == first {
		return result{}, errors.New("it used no CPU: did it end at once?")
	}
	took := lastAt.Sub(begin)
	r := result{name: strings.TrimSpace(string(name)), mean: 100 * float64(last-first) / float64(took)}
	for _, s := range shares {
		r.deviation += (s - r.mean) * (s - r.mean)
	}
	r.deviation = math.Sqrt(r.deviation / float64(len(shares)-1))
	r.others = max(0, (after-busy-float64(last-first)/1e9)/took.Seconds())
	return r, nil
}

// cpu is the CPU time of processes in nanoseconds, each by its own clock.
func cpu(pids []int) (sum int64) {
	for _, pid := range pids {
		var ts unix.Timespec
		if unix.ClockGettime(int32(^pid<<3|2), &ts) == nil { // an ended one is seen by its mean
			sum += ts.Nano()
		}
	}
	return sum
}

// family returns a process and its descendants, by the parents in /proc/PID/stat.
func family(root int) ([]int, error) {
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

// busySeconds is what all CPUs worked since the boot (proc_stat(5)), in steps of a
// hundredth of a second.
func busySeconds() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var sum float64
	for i, v := range f[1:9] {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if i != 3 && i != 4 { // idle, iowait
			sum += n
		}
	}
	return sum / 100, nil
}
