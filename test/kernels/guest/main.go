// Command guest is the first process of a machine that test/kernels starts: it mounts the usual
// file systems, runs known loads, compares the agent's figures with the kernel's own totals, prints
// a line for each, and switches the machine off.
//
//	GUEST result LAYOUT SOURCE CASE want=SECONDS got=SECONDS
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 {
		runProgram(os.Args[1], os.Args[2:])
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: it is the first process of a virtual machine; run `make e2e-kernels`")
		os.Exit(2)
	}
	if err := mountSystem(); err != nil {
		printLine("error %v", err)
	}
	printLine("end")
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// printLine prints a line for the program that runs the virtual machine.
func printLine(format string, args ...any) {
	fmt.Printf("GUEST "+format+"\n", args...)
}

func mountSystem() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"},
	} {
		if err := mountAt(m.kind, m.at, ""); err != nil {
			return err
		}
	}
	_ = os.Setenv("PATH", "/bin")
	_ = os.Chmod("/tmp", 0o1777)
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	printLine("kernel %s", kernelRelease())
	layout, tests := "v2", ""
	var some patterns
	line, _ := os.ReadFile("/proc/cmdline")
	for w := range strings.FieldsSeq(string(line)) {
		if v, ok := strings.CutPrefix(w, "guest.cgroups="); ok {
			layout = v
		}
		if v, ok := strings.CutPrefix(w, "guest.tests="); ok {
			tests = v
		}
		if v, ok := strings.CutPrefix(w, "guest.modes="); ok {
			some.modes = v
		}
		if v, ok := strings.CutPrefix(w, "guest.loads="); ok {
			some.loads = v
		}
	}
	if err := mountGroups(layout); err != nil {
		return err
	}
	modules()
	for name := range strings.SplitSeq(tests, ",") {
		if name != "" {
			runTests(name)
		}
	}
	return measureAll(layout, some)
}

func kernelRelease() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:])
}

// isKernelSince reports whether the kernel is of a given release or later.
func isKernelSince(major, minor int) bool {
	var a, b int
	_, _ = fmt.Sscanf(kernelRelease(), "%d.%d", &a, &b)
	return a > major || a == major && b >= minor
}

func mountAt(kind, at, data string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("none", at, kind, 0, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind, at, err)
	}
	return nil
}

const cgroupRoot = "/sys/fs/cgroup"

// mountGroups mounts the control groups in a layout: v1 with its hierarchies, v2, or hybrid as with systemd, which is an
// empty v2 hierarchy beside the v1 ones.
func mountGroups(layout string) error {
	if layout == "v2" {
		if err := mountAt("cgroup2", cgroupRoot, ""); err != nil {
			return err
		}
		return os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+cpu +memory +io +pids"), 0)
	}
	if err := mountAt("tmpfs", cgroupRoot, "mode=755"); err != nil {
		return err
	}
	for _, c := range []string{"cpu,cpuacct", "memory", "pids", "freezer"} {
		if err := mountAt("cgroup", filepath.Join(cgroupRoot, c), c); err != nil {
			printLine("note %s has no %s of version 1: %v", layout, c, err) // 6.12 has no memory there
			_ = os.Remove(filepath.Join(cgroupRoot, c))
		}
	}
	if err := mountAt("cgroup", cgroupRoot+"/systemd", "none,name=systemd"); err != nil { // as systemd has it, which units are found by
		return err
	}
	if layout == "hybrid" {
		return mountAt("cgroup2", cgroupRoot+"/unified", "")
	}
	return nil
}

// makeGroup creates a control group in every hierarchy and returns their directories.
func makeGroup(layout, path string) (dirs []string, err error) {
	roots := []string{cgroupRoot}
	if layout != "v2" {
		if roots, err = filepath.Glob(cgroupRoot + "/*"); err != nil {
			return nil, err
		}
	}
	for _, r := range roots {
		at := r
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			at += "/" + part
			if err := os.Mkdir(at, 0o755); err != nil && !os.IsExist(err) {
				return nil, err
			}
			if layout == "v2" && at != r+path {
				if err := os.WriteFile(at+"/cgroup.subtree_control", []byte("+cpu +memory +io +pids"), 0); err != nil {
					return nil, err
				}
			}
		}
		dirs = append(dirs, at)
	}
	return dirs, nil
}

// limitMemory limits the memory of a control group to limit bytes, or does nothing if limit is 0. dirs are its
// directories, one per hierarchy. ok is false if no hierarchy has the memory controller.
func limitMemory(dirs []string, limit uint64) (ok bool, err error) {
	for _, d := range dirs {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
			if _, err := os.Stat(d + "/" + name); err != nil || limit == 0 {
				continue
			}
			return true, os.WriteFile(d+"/"+name, strconv.AppendUint(nil, limit, 10), 0)
		}
	}
	return limit == 0, nil
}

// removeGroup removes a control group that nothing runs in, from every hierarchy.
func removeGroup(dirs []string) {
	for _, d := range dirs {
		if err := os.Remove(d); err != nil {
			printLine("note %v", err)
		}
	}
}

// runTests runs the compiled test program of a package.
func runTests(name string) {
	c := exec.Command("/"+name+"/test", "-test.short", "-test.v", "-test.timeout=10m", "-test.run=^Test")
	c.Dir = "/" + name
	out, err := c.CombinedOutput()
	text := string(out)
	failed := []string{}
	for line := range strings.Lines(text) {
		if f, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			failed = append(failed, strings.Fields(f)[0])
		}
	}
	printLine("tests %s passed=%d skipped=%d failed=%s", name, strings.Count(text, "--- PASS: "), strings.Count(text, "--- SKIP: "),
		strings.Join(failed, ","))
	if err != nil {
		for line := range strings.Lines(text) {
			fmt.Print("    " + line)
		}
	}
}
