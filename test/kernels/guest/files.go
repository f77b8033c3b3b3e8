package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor/netfs/nfstest"
)

// remoteDir is the mount point of NFS for a load.
const remoteDir = "/tmp/nfs"

// Size and number of the operations of the load on its file.
const (
	stats, opens, reads, writes = 1000, 200, 300, 100
	readSize, writeSize         = 4096, 1000
)

// runOnce does it, by a process that ends at once.
func runOnce(dir string) error {
	fd, err := unix.Open(dir+"/f", unix.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open a file of NFS: %w", err)
	}
	buf := make([]byte, readSize)
	var st unix.Stat_t
	for i := range max(stats, opens, reads, writes) {
		if i < stats && err == nil {
			err = unix.Stat(dir+"/f", &st)
		}
		if i < opens && err == nil {
			var more int
			if more, err = unix.Open(dir+"/f", unix.O_RDONLY, 0); err == nil {
				err = unix.Close(more)
			}
		}
		if i < writes && err == nil {
			_, err = unix.Pwrite(fd, buf[:writeSize], int64(i)*writeSize)
		}
		if i < reads && err == nil {
			_, err = unix.Pread(fd, buf, int64(i)*100)
		}
		if err != nil {
			return fmt.Errorf("use a file of NFS: %w", err)
		}
	}
	return unix.Close(fd)
}

// nfsServer is the kernel's own NFS server, started when it is first needed.
var nfsServer = sync.OnceValues(func() (*nfstest.Server, error) { return nfstest.Start(os.TempDir() + "/nfs-server") })

// mountRemote mounts a network file system with the file for the load. The agent should notice it.
func mountRemote() (unmount func(), err error) {
	server, err := nfsServer()
	if err != nil {
		return nil, err
	}
	if err := server.Mount(remoteDir, ""); err != nil {
		return nil, err
	}
	unmount = func() {
		if err := server.Unmount(remoteDir); err != nil {
			printLine("error %v", err)
		}
	}
	err = os.WriteFile(remoteDir+"/f", make([]byte, 1<<20), 0o666)
	if err == nil {
		err = os.Chmod(remoteDir+"/f", 0o666)
	}
	if err == nil {
		err = awaitCounted()
	}
	if err != nil {
		unmount()
		return nil, err
	}
	return unmount, nil
}

// awaitCounted calls on the mount until the agent counts that.
func awaitCounted() error {
	for late := time.Now().Add(2 * time.Minute); time.Now().Before(late); time.Sleep(time.Second) {
		if _, err := os.Stat(remoteDir + "/f"); err != nil {
			return err
		}
		if all, err := scrapeAgent(); err == nil && all.sumMatch("reckon_workload_mount_operations_total", "source", nfstest.Source) > 0 {
			return nil
		}
	}
	return errors.New("the agent does not notice the mount of NFS")
}

// countsRemote reports whether calls on file systems are counted in a mode: not on arm64 before Linux 6.4.
func (m *agentMode) countsRemote() bool {
	return strings.HasSuffix(m.name, "ebpf") && (runtime.GOARCH != "arm64" || isKernelSince(6, 4))
}

// nfsUsers returns the workloads that were charged with calls on NFS.
func nfsUsers(after samples) {
	for _, s := range after {
		if strings.HasPrefix(s.name, "reckon_workload_mount_operations") && s.value != 0 {
			printLine("note %s%s} %g", s.name, s.labels, s.value)
		}
	}
}

// remoteUse compares the operations of a user on NFS with the agent's figures.
func remoteUse(owner string, after samples) (all []comparison) {
	sum := func(name, label, value string) (sum float64) {
		for _, s := range after {
			if s.name == "reckon_workload_mount_"+name && hasLabel(s.labels, "owner", owner) && hasLabel(s.labels, "source",
				nfstest.Source) &&
				hasLabel(s.labels, label, value) {
				sum += s.value
			}
		}
		return sum
	}
	for _, c := range []struct {
		figure, name, label, value string
		want                       float64
	}{
		{"reads", "operations_total", "operation", "read", reads},
		{"writes", "operations_total", "operation", "write", writes},
		{"metadata", "operations_total", "operation", "metadata", stats + opens + 1},
		{"read-bytes", "bytes_total", "direction", "read", reads * readSize},
		{"written-bytes", "bytes_total", "direction", "write", writes * writeSize},
	} {
		all = append(all, comparison{"nfs-" + c.figure, "", c.want, sum(c.name, c.label, c.value)})
	}
	return all
}
