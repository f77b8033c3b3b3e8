package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// cpio writes an archive in the format "newc", which the kernel unpacks as its first file system
// (Documentation/driver-api/early-userspace/buffer-format.rst).
type cpio struct {
	w   io.Writer
	ino int
	err error
}

const (
	modeFile = 0o100755
	modeLink = 0o120777
	modeDir  = 0o040755
)

func (c *cpio) addFile(name string, mode int, data []byte) {
	c.ino++
	c.writeBytes(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name))
	c.padTo(110 + len(name) + 1)
	c.writeBytes(data)
	c.padTo(len(data))
}

func (c *cpio) writeBytes(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}

func (c *cpio) padTo(n int) { c.writeBytes(make([]byte, (4-n%4)%4)) }

func (c *cpio) writeTrailer() error {
	c.addFile("TRAILER!!!", 0, nil)
	return c.err
}

// testPackages are the packages with tests that run on each kernel, with their testdata.
var testPackages = []string{
	"access/peer", "sensor/cgroup", "sensor/netfs", "sensor/task", "sensor/task/bpf", "sensor/task/counters", "sensor/task/disks",
	"sensor/task/ebpf", "sensor/task/files", "sensor/task/mounts", "sensor/task/procfs", "sensor/task/rdma", "sensor/task/runqueue",
	"sensor/task/taskstats", "sensor/task/traffic", "sensor/task/waits",
}

// buildPrograms builds the programs for the machine. It returns their paths here by their paths there.
func buildPrograms(ctx context.Context, cache string, m machine) (map[string]string, error) {
	dir := filepath.Join(cache, "programs-"+m.arch)
	build := func(name string, args ...string) (string, error) {
		out := filepath.Join(dir, name)
		c := exec.CommandContext(ctx, "go", append(args[:len(args)-1:len(args)-1], "-o", out, args[len(args)-1])...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+m.arch)
		if text, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w: %s", name, err, text)
		}
		return out, nil
	}
	all := make(map[string]string)
	add := func(at, name string, args ...string) (err error) {
		all[at], err = build(name, args...)
		return err
	}
	if err := add("init", "guest", "build", "./test/kernels/guest"); err != nil {
		return nil, err
	}
	if err := add("bin/reckon-agent", "reckon-agent", "build", "-ldflags=-s -w", "./cmd/reckon-agent"); err != nil {
		return nil, err
	}
	for _, pkg := range m.tests {
		if err := add(pkg+"/test", strings.ReplaceAll(pkg, "/", "-")+".test", "test", "-c", "-ldflags=-s -w", "./"+pkg); err != nil {
			return nil, err
		}
		err := filepath.WalkDir(filepath.Join(pkg, "testdata"), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				all[path] = path
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return all, nil
}

// writeImage writes the first file system of a machine.
func writeImage(path, busybox string, programs map[string]string, modules [][]byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buffer := bufio.NewWriter(f)
	zip, err := gzip.NewWriterLevel(buffer, gzip.BestSpeed)
	if err != nil {
		return err
	}
	c := &cpio{w: zip}
	for _, d := range []string{"bin", "dev", "etc", "host", "proc", "modules", "run", "sys", "tmp"} {
		c.addFile(d, modeDir, nil)
	}
	c.addFile("etc/passwd", modeFile, []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"))
	box, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	c.addFile("bin/busybox", modeFile, box)
	for _, name := range []string{"sh", "cat", "dd", "echo", "false", "ip", "kill", "mkdir", "mke2fs", "mount", "sleep", "true", "umount"} {
		c.addFile("bin/"+name, modeLink, []byte("busybox"))
	}
	made := map[string]bool{}
	for _, at := range slices.Sorted(maps.Keys(programs)) {
		from := programs[at]
		for i, r := range at {
			if d := at[:i]; r == '/' && d != "bin" && !made[d] {
				made[d] = true
				c.addFile(d, modeDir, nil)
			}
		}
		b, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		c.addFile(at, modeFile, b)
	}
	for i, b := range modules {
		c.addFile(fmt.Sprintf("modules/%02d.ko", i), modeFile, b)
	}
	if err := c.writeTrailer(); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	return f.Close()
}
