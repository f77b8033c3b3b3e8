package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// emulate runs one machine to its end and adds its reports to r.
func emulate(ctx context.Context, cache string, m machine, limit time.Duration, r *report, verbose bool) error {
	vmlinuz, busybox, err := fetchKernel(ctx, cache, m.suite, m.arch)
	if err != nil {
		return err
	}
	parts, err := buildPrograms(ctx, cache, m)
	if err != nil {
		return err
	}
	initrd := filepath.Join(cache, "initrd-"+m.arch)
	drivers, err := readModules(ctx, vmlinuz)
	if err != nil {
		return err
	}
	if err := writeImage(initrd, busybox, parts, drivers); err != nil {
		return fmt.Errorf("write the first file system: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not ended after %v", limit))
	defer cancel()
	c := exec.CommandContext(ctx, "nice", append([]string{"-n", "10"}, qemuArgs(m, vmlinuz, initrd)...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		return err
	}
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := strings.TrimRight(in.Text(), "\r")
		if verbose {
			fmt.Println("    " + line)
		}
		r.addLine(line)
	}
	err = c.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case !r.ended:
		return errors.New("it ended early: " + r.last)
	}
	return nil
}

// memoryMiB is the memory of a machine.
const memoryMiB = 1024

func qemuArgs(m machine, vmlinuz, initrd string) []string {
	command, console := []string{"qemu-system-x86_64", "-cpu", "max"}, "ttyS0"
	if m.arch == "arm64" {
		command, console = []string{"qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a57"}, "ttyAMA0"
	}
	// One thread runs all processors. With a thread for each, QEMU 7.2 may keep a translation that
	// was made while another processor changed the code. Where a static branch was switched, a
	// processor then hit the breakpoint of the change repeatedly, although memory no longer held
	// it.
	return append(command, "-accel", "tcg,thread=single", "-m", strconv.Itoa(memoryMiB), "-smp", "2", "-nographic", "-no-reboot", "-nic",
		"none", "-kernel", vmlinuz, "-initrd", initrd,
		"-append", fmt.Sprintf("console=%s quiet panic=-1 guest.cgroups=%s guest.modes=%s guest.loads=%s guest.tests=%s", console, m.layout,
			m.modes, m.loads, strings.Join(m.tests, ",")))
}

// missingPrograms names programs that are needed and not here.
func missingPrograms() (names []string) {
	for _, p := range []string{"apt-get", "apt-cache", "dpkg-deb", "xz", "qemu-system-x86_64", "qemu-system-aarch64"} {
		if _, err := exec.LookPath(p); err != nil {
			names = append(names, p)
		}
	}
	if _, err := os.Stat(debianKeyring); err != nil {
		names = append(names, "debian-archive-keyring")
	}
	return names
}
