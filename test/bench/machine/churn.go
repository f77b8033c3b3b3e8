package machine

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"reckon/test/bench/measure"
)

// Inside is the environment variable of a bench that runs in its own PID namespace.
const Inside = "RECKON_BENCH_INSIDE"

// Churn measures reckon up on a machine with many short-lived process groups. Its arguments are programs of several versions. All of them
// run at the same time beside the same groups, because results on a busy machine can be compared only then:
//
//	go run ./test/bench churn -rate 5 -time 1h bin/reckon old/reckon
//	go run ./test/bench churn -burst 1000 -rate 0 -life 330s -time 225s -every 45s bin/reckon
//
// Each group is a shell that uses about two milliseconds of CPU time and sleeps. If Churn runs as root, everything runs in a PID
// namespace, so that other processes of the machine are not counted.
func Churn(ctx context.Context, e *measure.Env, args []string) error {
	f := flag.NewFlagSet("churn", flag.ContinueOnError)
	rate := f.Float64("rate", 5, "new process groups a second; 0 for none")
	burst := f.Int("burst", 0, "process groups that begin at once")
	life := f.Duration("life", 20*time.Second, "for how long a group sleeps")
	length := f.Duration("time", time.Hour, "for how long groups come and go")
	every := f.Duration("every", 5*time.Minute, "time between two lines")
	settle := f.Duration("settle", 30*time.Second, "time before the first group, of which the last half is measured at rest")
	if err := f.Parse(args); err != nil {
		return err
	}
	if os.Geteuid() == 0 && os.Getenv(Inside) == "" {
		return runIsolated(ctx, e)
	}
	bins := f.Args()
	if len(bins) == 0 {
		bins = []string{filepath.Join(e.Bin, "reckon")}
	}
	var list []*runningUp
	for i, bin := range bins {
		p := &runningUp{data: filepath.Join(e.Dir, strconv.Itoa(i))}
		p.Process = measure.Process{Name: bin, Path: bin, Ready: "/readyz", Args: func(addr string) []string {
			return []string{"up", "--data", p.data, "--listen", addr}
		}}
		if err := p.Start(ctx); err != nil {
			return err
		}
		defer p.Stop()
		list = append(list, p)
	}
	row := e.Table("", "after", "program", "of a core", "resident", "anonymous", "peak", "written", "kept", "load")
	report := func(what string, passed time.Duration) {
		for _, p := range list {
			before := p.used
			p.used = p.CPU()
			kept, _ := measure.BytesOf(p.data) // files that are removed meanwhile count nothing
			mb := func(file, name string, unit float64) float64 { return measure.Status(p.PID(), file, name) * unit / 1e6 }
			row("%s | %s | %.2f %% | %.1f MB | %.1f MB | %.1f MB | %.1f MB | %.1f MB | %s", what, p.Name,
				100*(p.used-before).Seconds()/passed.Seconds(),
				mb("status", "VmRSS:", 1024), mb("status", "RssAnon:", 1024), mb("status", "VmHWM:", 1024), mb("io", "write_bytes:", 1),
				float64(kept)/1e6, measure.Load())
		}
	}
	if err := measure.Pause(ctx, *settle/2); err != nil {
		return err
	}
	for _, p := range list {
		p.used = p.CPU()
	}
	if err := measure.Pause(ctx, *settle/2); err != nil {
		return err
	}
	report("at rest", *settle/2)
	began := time.Now()
	for range *burst {
		if err := startGroup(*life); err != nil {
			return err
		}
	}
	next, line, last := began, began.Add(*every), began // the next group, the next line
	for {
		at := line
		if *rate > 0 && next.Before(line) {
			at = next
		}
		if at.Sub(began) > *length {
			return nil
		}
		if err := measure.Pause(ctx, time.Until(at)); err != nil {
			return err
		}
		if at == line {
			now := time.Now()
			report(now.Sub(began).Round(time.Second).String(), now.Sub(last))
			line, last = line.Add(*every), now
			continue
		}
		if err := startGroup(*life); err != nil {
			return err
		}
		next = next.Add(time.Duration(float64(time.Second) / *rate))
	}
}

// runningUp is a running reckon up.
type runningUp struct {
	measure.Process
	data string
	used time.Duration // processor time at the last line
}

// runIsolated runs this program again in a PID namespace.
func runIsolated(ctx context.Context, e *measure.Env) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "unshare", append([]string{"--pid", "--fork", "--mount-proc", "--kill-child", self}, os.Args[1:]...)...)
	c.Env = append(os.Environ(), Inside+"=1")
	c.Stdout, c.Stderr = e.Out, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 20 * time.Second
	return c.Run()
}

// startGroup starts a process group that ends by itself.
func startGroup(life time.Duration) error {
	c := exec.Command("sh", "-c", fmt.Sprintf("i=0; while [ $i -lt 1500 ]; do i=$((i+1)); done; exec sleep %g", life.Seconds()))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait() }() // it was killed with the namespace, or ended
	return nil
}
