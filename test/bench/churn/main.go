// Churn runs reckon up beside process groups that come and go, and prints what it takes: processor time, memory, bytes
// written and bytes kept. Several programs are run at the same time beside the same groups, so that they can be compared
// on a machine with other work:
//
//	go run ./test/bench/churn -rate 5 -time 1h bin/reckon old/reckon
//	go run ./test/bench/churn -burst 1000 -rate 0 -life 330s -time 225s -every 45s bin/reckon
//
// Each group is a shell that uses about two milliseconds of a core and sleeps for as long as -life says: groups of up to a minute
// are short work, see doc/decisions/0017-short-work.md. As root it all runs in a
// PID namespace, so that no other process of the machine is counted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settle is the time before the first group, of which the last half is measured at rest.
const settle = 30 * time.Second

func main() {
	rate := flag.Float64("rate", 5, "new process groups a second; 0 for none")
	burst := flag.Int("burst", 0, "process groups that begin at once")
	life := flag.Duration("life", 20*time.Second, "for how long a group sleeps")
	length := flag.Duration("time", time.Hour, "for how long groups come and go")
	every := flag.Duration("every", 5*time.Minute, "time between two lines")
	inside := flag.Bool("inside", false, "the PID namespace is there already")
	flag.Parse()
	bins := flag.Args()
	if len(bins) == 0 {
		bins = []string{"bin/reckon"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if os.Geteuid() == 0 && !*inside {
		err = alone(ctx)
	} else {
		err = run(ctx, bins, *burst, *rate, *length, *every, *life)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "churn:", err)
		os.Exit(1)
	}
}

// alone runs this program again in a PID namespace.
func alone(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"--pid", "--fork", "--mount-proc", "--kill-child", self, "-inside"}, os.Args[1:]...)
	c := exec.CommandContext(ctx, "unshare", args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 20 * time.Second
	return c.Run()
}

// program is a running reckon up.
type program struct {
	name, data string
	cmd        *exec.Cmd
	ticks      int // of processor time, at the last line
}

func run(ctx context.Context, bins []string, burst int, rate float64, length, every, life time.Duration) error {
	dir, err := os.MkdirTemp("", "reckon-churn-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var list []*program
	defer func() {
		for _, p := range list {
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			_ = p.cmd.Wait()
		}
	}()
	for i, bin := range bins {
		p, err := start(bin, filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		list = append(list, p)
	}
	if err := pause(ctx, settle/2); err != nil {
		return err
	}
	for _, p := range list {
		p.ticks = p.used()
	}
	if err := pause(ctx, settle/2); err != nil {
		return err
	}
	report(list, "at rest", settle/2)
	began := time.Now()
	for range burst {
		if err := group(life); err != nil {
			return err
		}
	}
	next, line, last := began, began.Add(every), began // the next group, the next line
	for {
		at := line
		if rate > 0 && next.Before(line) {
			at = next
		}
		if at.Sub(began) > length {
			return nil
		}
		if err := pause(ctx, time.Until(at)); err != nil {
			return err
		}
		if at == line {
			now := time.Now()
			report(list, now.Sub(began).Round(time.Second).String(), now.Sub(last))
			line, last = line.Add(every), now
			continue
		}
		if err := group(life); err != nil {
			return err
		}
		next = next.Add(time.Duration(float64(time.Second) / rate))
	}
}

func start(bin, data string) (*program, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().String()
	if err := free.Close(); err != nil {
		return nil, err
	}
	c := exec.Command(bin, "up", "--data", data, "--listen", addr)
	c.Stderr = os.Stderr
	return &program{name: bin, data: data, cmd: c}, c.Start()
}

// group starts a process group that ends by itself.
func group(life time.Duration) error {
	c := exec.Command("sh", "-c", fmt.Sprintf("i=0; while [ $i -lt 1500 ]; do i=$((i+1)); done; exec sleep %g", life.Seconds()))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait() }() // it was killed with the namespace, or ended
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// report writes a line for each program about the time that has passed since the last one.
func report(list []*program, what string, passed time.Duration) {
	load, _, _ := strings.Cut(text(os.ReadFile("/proc/loadavg")), " ")
	for _, p := range list {
		before := p.ticks
		p.ticks = p.used()
		share := float64(p.ticks-before) / passed.Seconds() // a tick is a hundredth of a second, so this is percent
		fmt.Printf("%s\t%s\t%.2f %% of a core\t%.1f MB resident, %.1f anonymous, %.1f at the peak\t%.1f MB written, %.1f kept\tload %s\n", what, p.name, share,
			p.status("status", "VmRSS:")/1e3, p.status("status", "RssAnon:")/1e3, p.status("status", "VmHWM:")/1e3, p.status("io", "write_bytes:")/1e6, kept(p.data)/1e6, load)
	}
}

func text(raw []byte, _ error) string { return string(raw) }

func (p *program) file(name string) string {
	return text(os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), name)))
}

// used is its processor time, in ticks of a hundredth of a second.
func (p *program) used() int {
	_, rest, _ := strings.Cut(p.file("stat"), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return user + system
}

// status is a number of a file in which each line begins with a name; 0 where there is none.
func (p *program) status(file, name string) float64 {
	for line := range strings.Lines(p.file(file)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			v, _ := strconv.ParseFloat(f[1], 64)
			return v
		}
	}
	return 0
}

// kept is how many bytes the files of a directory take, without the space that is held in reserve.
func kept(dir string) (sum float64) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what is removed meanwhile counts nothing
		if err != nil || d.IsDir() || d.Name() == "ballast" {
			return nil
		}
		if i, err := d.Info(); err == nil {
			sum += float64(i.Size())
		}
		return nil
	})
	return sum
}
