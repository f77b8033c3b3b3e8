package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"reckon/account/energy"
	"reckon/lab/stress"
	"reckon/sensor"
	"reckon/sensor/all"
	"reckon/sensor/task"
)

// knownLoads lists the loads of a GPU report. share is the used share of the device. seconds is the duration of each
// of the times consecutive processes of a group, and groups the number of simultaneous groups. most is the largest
// relative difference allowed between the accounts and the CUDA events of the loads.
var knownLoads = []struct {
	name           string
	share, seconds float64
	times, groups  int
	most           float64
}{
	{"all of it", 1, 6, 1, 1, 0.02},
	{"40 %", 0.4, 6, 1, 1, 0.02},
	{"eight processes of 0.3 s in a group", 1, 0.3, 8, 1, 0.05},
	{"two groups of 30 % side by side, together", 0.3, 6, 1, 2, 0.05},
}

// gpuReporter charges the GPUs of this machine to process groups while loads of known use run.
type gpuReporter struct {
	tasks    *task.Source
	source   sensor.GPUSource
	pass     sensor.Pass
	gpu      sensor.GPUPass
	books    energy.NodeEnergy
	other    energy.Account
	groups   map[int32]*energy.Account // by process group
	of       map[int32]*energy.Account // by process
	gone     map[int32]bool
	accounts []*energy.Account
}

// reportGPUs runs loads of known use and writes one line for the table "seen on hardware" of the guide.
func reportGPUs(ctx context.Context, out io.Writer, root string) error {
	r := &gpuReporter{groups: map[int32]*energy.Account{}, of: map[int32]*energy.Account{}, gone: map[int32]bool{}}
	r.accounts = []*energy.Account{&r.other}
	for _, e := range all.Sensors(root) {
		if e.Name != "nvml" {
			continue
		}
		s, err := e.Open()
		if err != nil {
			return fmt.Errorf("no report of GPUs: its loads need CUDA, and a GPU of NVIDIA to compute on: %w", err)
		}
		defer s.Close()
		r.source = s.(sensor.GPUSource)
	}
	var err error
	if r.tasks, _, err = task.Open(task.Options{Root: root}); err != nil {
		return err
	}
	defer r.tasks.Close()
	if err := errors.Join(r.takeReading(), r.takeReading()); err != nil || len(r.gpu.Devices) == 0 {
		return errors.Join(errors.New("no report of GPUs: the driver shows none"), err)
	}
	d := r.gpu.Devices[0]
	if n := len(r.gpu.Uses); n > 0 {
		fmt.Fprintf(out, "%d processes have GPUs open: for figures of use let nobody else compute.\n", n)
	}
	var found []string
	var wrong []error
	for _, k := range knownLoads {
		fmt.Fprintf(out, "Load: %s ...\n", k.name)
		got, mark, truth, err := r.runLoad(ctx, k.groups, fmt.Sprint(k.share), fmt.Sprint(k.seconds), strconv.Itoa(k.times))
		if err != nil {
			return fmt.Errorf("no report of GPUs: load %q: %w", k.name, err)
		}
		found = append(found, fmt.Sprintf("%s %.2f of %.2f s%s", k.name, got, truth, mark))
		if off := math.Abs(got/truth - 1); !(off <= k.most) {
			wrong = append(wrong, fmt.Errorf("%s: %.2f s charged, %.2f s by CUDA events, %.1f %% off", k.name, got, truth, 100*off))
		}
	}
	opens := "not seen"
	if r.tasks.SeesOpens() {
		opens = "seen"
	}
	var u unix.Utsname
	_ = unix.Uname(&u) // does not fail for a valid address
	fmt.Fprintf(out, "\n| %s, driver %s, Linux %s | %s; others %.2f s; opens %s | %s |\n", d.Model, d.Driver,
		unix.ByteSliceToString(u.Release[:]), strings.Join(found, "; "), gpuSeconds(&r.other), opens,
		time.Now().UTC().Format(time.DateOnly))
	return errors.Join(wrong...)
}

func gpuSeconds(a *energy.Account) (seconds float64) {
	for _, s := range a.Seconds() {
		seconds += s
	}
	return seconds
}

// takeReading takes one reading, a second after the previous one, like an agent.
func (r *gpuReporter) takeReading() error {
	time.Sleep(time.Second)
	if s, ok := r.source.(sensor.GPUStarter); ok {
		s.StartGPU(true, true)
	}
	r.pass.Reset()
	err := r.tasks.Read(&r.pass)
	for i, list := range [][]sensor.Process{r.pass.Live, r.pass.Exited} {
		for k := range list {
			if a := r.groups[list[k].PGID]; a != nil {
				r.of[list[k].PID], r.gone[list[k].PID] = a, i > 0
			}
		}
	}
	r.gpu.Reset()
	err = errors.Join(err, r.source.ReadGPU(&r.gpu))
	r.books.Opens = r.pass.Opens
	r.books.GPU(time.Now().UnixMilli(), &r.gpu, func(pid int32) (*energy.Account, bool) {
		if a := r.of[pid]; a != nil {
			return a, r.gone[pid]
		}
		return &r.other, false
	}, r.accounts, &r.other)
	return err
}

// runLoad runs one of the known loads. got is the GPU time in seconds charged to its groups, and mark shows whether it is
// estimated. truth is the GPU time that the groups measured themselves.
func (r *gpuReporter) runLoad(ctx context.Context, groups int, args ...string) (got float64, mark string, truth float64, err error) {
	var accounts []*energy.Account
	found := ""
	type end struct {
		text string
		err  error
	}
	done := make(chan end, groups)
	for range groups {
		c := exec.CommandContext(ctx, "/proc/self/exe", append([]string{gpuLoadCommand}, args...)...)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		text := new(bytes.Buffer)
		c.Stdout, c.Stderr = text, text
		if err := c.Start(); err != nil {
			return 0, "", 0, err
		}
		a := new(energy.Account)
		r.groups[int32(c.Process.Pid)] = a
		accounts, r.accounts = append(accounts, a), append(r.accounts, a)
		go func() {
			err := c.Wait()
			done <- end{text.String(), err}
		}()
	}
	for left := groups; left > 0; {
		err = errors.Join(err, r.takeReading())
		select {
		case e := <-done:
			left, found, err = left-1, found+e.text, errors.Join(err, e.err)
		default:
		}
	}
	for range 3 { // late reports of the driver
		err = errors.Join(err, r.takeReading())
	}
	if err != nil {
		return 0, "", 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(found))
	}
	for _, a := range accounts {
		if got += gpuSeconds(a); a.Seconds()[0] < gpuSeconds(a) {
			mark = ", estimated"
		}
	}
	for f := range strings.FieldsSeq(found) {
		busy, e := strconv.ParseFloat(f, 64)
		truth, err = truth+busy, errors.Join(err, e)
	}
	return got, mark, truth, err
}

// gpuLoadCommand is the hidden command that a report runs.
const gpuLoadCommand = "gpu-load"

// newGPULoad returns a command that puts a load on the first GPU. Its arguments are a share, a duration and a number of
// consecutive processes. It prints the computing seconds of each process, measured by CUDA events.
func newGPULoad() *cobra.Command {
	return &cobra.Command{
		Use: gpuLoadCommand + " SHARE SECONDS TIMES", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			share, e1 := strconv.ParseFloat(args[0], 64)
			seconds, e2 := strconv.ParseFloat(args[1], 64)
			times, e3 := strconv.Atoi(args[2])
			if err := errors.Join(e1, e2, e3); err != nil {
				return asUsageError(err)
			}
			for ; times > 1; times-- { // the last one is this process
				c := exec.CommandContext(cmd.Context(), "/proc/self/exe", gpuLoadCommand, args[0], args[1], "1")
				c.Stdout, c.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
				if err := c.Run(); err != nil {
					return err
				}
			}
			p := stress.Constant(stress.Level{stress.GPU: share}, time.Duration(seconds*float64(time.Second)))
			report, err := stress.Run(cmd.Context(), p, stress.Options{})
			if err != nil {
				return err
			}
			for _, s := range report.Steps {
				if f := s.Figures[stress.GPU.String()]; f.Achieved != nil {
					fmt.Fprintln(cmd.OutOrStdout(), *f.Achieved*s.Seconds)
				}
			}
			return nil
		},
	}
}
