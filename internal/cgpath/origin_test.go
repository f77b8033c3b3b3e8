package cgpath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// groups creates directories below a new one, as a mounted hierarchy has them.
func groups(t *testing.T, paths ...string) (point string) {
	t.Helper()
	point = t.TempDir()
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Join(point, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return point
}

// ours is the engine's mount in the container: the same directory at another place.
func ours(t *testing.T, dir string) (point string) {
	t.Helper()
	point = filepath.Join(t.TempDir(), "cgroup")
	if err := os.Symlink(dir, point); err != nil {
		t.Fatal(err)
	}
	return point
}

// The paths are as with containerd 2.2.9 with Kubernetes 1.34.4 on version 2, with the
// drivers systemd and cgroupfs, of podman 4.3 and of Docker 28 on version 1.
const (
	burstable = "/kubepods.slice/kubepods-burstable.slice"
	podA      = burstable + "/kubepods-burstable-pod0a3f2f9c_3a5f_4f0b_8f0e_c1f6b1d0a001.slice"
	podB      = burstable + "/kubepods-burstable-pod9b1c2f9c_3a5f_4f0b_8f0e_c1f6b1d0b002.slice"
	agent     = podA + "/cri-containerd-51c89a0b2302.scope"
)

func TestOrigin(t *testing.T) {
	type want struct{ controllers, path, absolute string }
	for name, tt := range map[string]struct {
		mounts func(t *testing.T) (outer, inner []Mount)
		own    string
		want   []want
	}{
		"a pod": {func(t *testing.T) (outer, inner []Mount) {
			host := groups(t, agent, podA+"/cri-containerd-77d1.scope", podB+"/cri-containerd-12aa.scope", "/system.slice/containerd.service", "/system.slice/a/b/c")
			return []Mount{{V2: true, Root: "/../../../..", Point: host}}, []Mount{{V2: true, Root: "/", Point: ours(t, host+agent)}}
		}, "0::/\n", []want{
			{"", "/", agent},
			{"", "/init", agent + "/init"},
			{"", "/../cri-containerd-77d1.scope", podA + "/cri-containerd-77d1.scope"},
			{"", "/../../" + filepath.Base(podB) + "/cri-containerd-12aa.scope", podB + "/cri-containerd-12aa.scope"},
			{"", "/../../../../system.slice/containerd.service", "/system.slice/containerd.service"},
			{"", "/../../../..", "/"},
			{"", "/../../../../..", "/../../../../.."},         // above the mounted root
			{"memory", "/../x", "/../x"},                       // another hierarchy
			{"", "/..x", agent + "/..x"},                       // a name that begins with dots
			{"", "/../..x", podA + "/..x"},                     //
			{"", "/../a b:c\n", podA + "/a b:c\n"},             // any byte but a slash
			{"", "/../../../../../etc", "/../../../../../etc"}, // unchanged
		}},
		"a pod, cgroupfs": {func(t *testing.T) (outer, inner []Mount) {
			host := groups(t, "/kubepods/besteffort/pod1/c1", "/kubepods/besteffort/pod2/c2")
			return []Mount{{V2: true, Root: "/../../../..", Point: host}}, []Mount{{V2: true, Root: "/", Point: ours(t, host+"/kubepods/besteffort/pod1/c1")}}
		}, "0::/\n", []want{{"", "/../../pod2/c2", "/kubepods/besteffort/pod2/c2"}}},
		"no mount of our own: by our process id": {func(t *testing.T) (outer, inner []Mount) {
			host := groups(t, "/machine.slice/libpod-1.scope/container/init", "/machine.slice/libpod-2.scope/container/init")
			for dir, pids := range map[string]string{"/machine.slice/libpod-1.scope/container/init": "1\n4711\n", "/machine.slice/libpod-2.scope/container/init": "47\n14711\n"} {
				if err := os.WriteFile(host+dir+"/cgroup.procs", []byte(pids), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			return []Mount{{V2: true, Root: "/../../..", Point: host}}, nil
		}, "0::/init\n", []want{
			{"", "/init", "/machine.slice/libpod-1.scope/container/init"},
			{"", "/../../libpod-2.scope/container", "/machine.slice/libpod-2.scope/container"},
		}},
		"version 1": {func(t *testing.T) (outer, inner []Mount) {
			memory, cpu := groups(t, "/docker/c1", "/docker/c2"), groups(t, "/docker/c1")
			return []Mount{{Controllers: []string{"memory"}, Root: "/../..", Point: memory}, {Controllers: []string{"cpu", "cpuacct"}, Root: "/../..", Point: cpu}},
				[]Mount{{Controllers: []string{"memory"}, Root: "/", Point: ours(t, memory+"/docker/c1")}, {Controllers: []string{"cpuacct", "cpu"}, Root: "/", Point: ours(t, cpu+"/docker/c1")}}
		}, "", []want{{"memory", "/../c2", "/docker/c2"}, {"cpuacct,cpu", "/../c2", "/docker/c2"}, {"cpu", "/", "/docker/c1"}, {"", "/../c2", "/../c2"}}},
		"the outermost of several mounts": {func(t *testing.T) (outer, inner []Mount) {
			host := groups(t, "/a/b/c")
			return []Mount{{V2: true, Root: "/..", Point: host + "/a/b"}, {V2: true, Root: "/../../..", Point: host}}, []Mount{{V2: true, Root: "/", Point: ours(t, host+"/a/b/c")}}
		}, "", []want{{"", "/../d", "/a/b/d"}}},
		"the namespace of the machine": {func(t *testing.T) (outer, inner []Mount) {
			host := groups(t, "/a")
			m := []Mount{{V2: true, Root: "/", Point: host}}
			return m, m
		}, "0::/a\n", []want{{"", "/a", "/a"}, {"", "/../b", "/../b"}}},
		"not to be found": {func(t *testing.T) (outer, inner []Mount) {
			host := groups(t, "/a/b")
			return []Mount{{V2: true, Root: "/../..", Point: host}}, []Mount{{V2: true, Root: "/", Point: t.TempDir()}}
		}, "0::/\n", []want{{"", "/../b", "/../b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			outer, inner := tt.mounts(t)
			o := findOrigin(outer, inner, []byte(tt.own), 4711)
			for _, w := range tt.want {
				if got := o.Absolute(w.controllers, w.path); got != w.absolute {
					t.Errorf("%q of %q is %q, want %q", w.path, w.controllers, got, w.absolute)
				}
			}
		})
	}
}

// TestAbsoluteRoots tests that the roots of mounts match the paths made absolute.
func TestAbsoluteRoots(t *testing.T) {
	host := groups(t, agent)
	mounts := []Mount{{V2: true, Root: "/../../../..", Point: host}, {V2: true, Root: "/", Point: ours(t, host+agent)}, {V2: true, Root: "/../..", Point: host + burstable}}
	findOrigin(mounts, mounts, nil, 0).AbsoluteRoots(mounts)
	for i, want := range []string{"/", agent, burstable} {
		if mounts[i].Root != want {
			t.Errorf("%q, want %q", mounts[i].Root, want)
		}
	}
}

func FuzzAbsolute(f *testing.F) {
	f.Add("/../../a", "/x/y")
	f.Add("/..", "/")
	f.Add("/../..b/../c", "/x")
	f.Fuzz(func(t *testing.T, path, own string) {
		if !strings.HasPrefix(path, "/") || !strings.HasPrefix(own, "/") {
			return
		}
		o := Origin{roots: []namespaceRoot{{Mount{V2: true}, strings.TrimRight(own, "/")}}}
		if got := o.Absolute("", path); !strings.HasPrefix(got, "/") {
			t.Errorf("%q in %q is %q", path, own, got)
		}
	})
}
