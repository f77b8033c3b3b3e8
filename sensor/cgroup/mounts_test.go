package cgroup

import (
	"errors"
	"strings"
	"testing"

	"reckon/internal/cgpath"
)

// The machines are: a hybrid one, a container on version 1 without a cgroup namespace,
// and a container with one that has the host's whole tree mounted.
const (
	hybridMounts = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 master:1 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified\040tree rw,relatime - cgroup2 cgroup2 rw
`
	containerMounts = `32 31 0:29 /docker/4711 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
33 31 0:29 / /host/memory ro - cgroup cgroup rw,memory
`
	namespaceMounts = `32 31 0:29 / /sys/fs/cgroup ro - cgroup2 cgroup rw
33 31 0:29 /../.. /host/sys/fs/cgroup ro - cgroup2 cgroup rw
`
	onlyOwnMounts = `32 31 0:29 /docker/4711 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
`
)

func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		mounts, controllers, path, want string
		err                             error
	}{
		{hybridMounts, "cpuacct,cpu", "/a/b", "/sys/fs/cgroup/cpu,cpuacct/a/b", nil},
		{hybridMounts, "cpuacct", "/", "/sys/fs/cgroup/cpu,cpuacct", nil},
		{hybridMounts, "name=systemd", "/x", "/sys/fs/cgroup/systemd/x", nil},
		{hybridMounts, "", "/a b", "/sys/fs/cgroup/unified tree/a b", nil},
		{hybridMounts, "pids", "/a", "", errNoMount},
		{hybridMounts, "memory", "/a/../../etc", "", errOutsideMounts},
		{hybridMounts, "memory", "a", "", errOutsideMounts},
		{hybridMounts, "memory", "", "", errOutsideMounts},
		{hybridMounts, "memory", "/a//b", "", errOutsideMounts},
		{hybridMounts, "memory", "/a\x00b", "", errOutsideMounts},
		{hybridMounts, "memory", "/a\nb", "/sys/fs/cgroup/memory/a\nb", nil},
		{containerMounts, "memory", "/docker/4711/x", "/sys/fs/cgroup/memory/x", nil},
		{containerMounts, "memory", "/docker/4711", "/sys/fs/cgroup/memory", nil},
		{containerMounts, "memory", "/docker/47112", "/host/memory/docker/47112", nil},
		{onlyOwnMounts, "memory", "/docker/1", "", errOutsideMounts},
		{namespaceMounts, "", "/x", "/sys/fs/cgroup/x", nil},
		{namespaceMounts, "", "/../../system.slice/a.service", "/host/sys/fs/cgroup/system.slice/a.service", nil},
		{namespaceMounts, "", "/../a", "", errOutsideMounts}, // a sibling under a name of its parent that is not known in here
	} {
		_, got, err := locateCgroup(cgpath.ParseMounts([]byte(tt.mounts)), tt.controllers, tt.path)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("locate(%q, %q) = %q, %v; want %q, %v", tt.controllers, tt.path, got, err, tt.want, tt.err)
		}
	}
}

func FuzzMounts(f *testing.F) {
	for _, s := range []string{hybridMounts, containerMounts, namespaceMounts, "1 2 3 - cgroup a\n", `1 2 3 /\0 /\777 6 - cgroup2 a b`} {
		f.Add([]byte(s), "/../../a/b")
	}
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		mounts := cgpath.ParseMounts(text)
		for _, m := range mounts {
			_, dir, err := locateCgroup(mounts, strings.Join(m.Controllers, ","), path)
			if err != nil {
				continue
			}
			inside := false
			for _, m := range mounts {
				rest, ok := strings.CutPrefix(dir, m.Point)
				inside = inside || ok && !strings.Contains(rest+"/", "/../")
			}
			if !inside {
				t.Errorf("%q leads to %q", path, dir)
			}
		}
	})
}
