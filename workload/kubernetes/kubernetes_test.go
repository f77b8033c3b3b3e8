package kubernetes

import (
	"testing"

	"reckon/workload"
	"reckon/workload/workloadtest"
)

const (
	uid    = "01042b28-179d-446a-954a-7266557e12cd"
	uid_   = "01042b28_179d_446a_954a_7266557e12cd"
	cid    = "22f44d2a517778590e2d8bcafafe501f79e8a509e5b6de70b7700c4d37722bce"
	node   = "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376"
	static = "d76e26fba3bf2bfd215eb29011d55250"
	burst  = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice"
)

func TestConformance(t *testing.T) {
	workloadtest.Test(t, func() workload.Resolver { return New(nil) })
	workloadtest.Test(t, func() workload.Resolver { return New(names{}) })
}

func FuzzResolve(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return New(nil) }, burst+"/crio-"+cid+".scope", "/kubepods/pod"+uid+"/"+cid,
		"/system.slice/containerd.service/kubepods-burstable-pod"+uid_+".slice:cri-containerd:"+cid)
}

func TestLayouts(t *testing.T) {
	for _, tt := range []struct{ path, uid, part, cgroup string }{
		{"/kubepods/burstable/pod" + uid + "/" + cid, uid, cid[:12], "/kubepods/burstable/pod" + uid + "/" + cid},
		{"/kubepods/pod" + uid + "/" + cid + "/init.scope", uid, cid[:12], "/kubepods/pod" + uid + "/" + cid},
		{"/kubepods/besteffort/pod" + static + "/" + cid, static, cid[:12], "/kubepods/besteffort/pod" + static + "/" + cid},
		{burst + "/cri-containerd-" + cid + ".scope", uid, cid[:12], burst + "/cri-containerd-" + cid + ".scope"},
		{burst + "/crio-" + cid + ".scope/container", uid, cid[:12], burst + "/crio-" + cid + ".scope"},
		{burst + "/docker-" + cid + ".scope", uid, cid[:12], burst + "/docker-" + cid + ".scope"},
		{burst + "/" + cid, uid, cid[:12], burst + "/" + cid},
		{burst + "/crio-conmon-" + cid + ".scope", uid, "", ""},
		{burst, uid, "", ""},
		{"/kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + cid + ".scope", uid, cid[:12], "/kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + cid + ".scope"},
		{"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + uid_ + ".slice/cri-containerd-" + cid + ".scope", uid, cid[:12],
			"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + uid_ + ".slice/cri-containerd-" + cid + ".scope"},
		{"/docker/" + node + "/kubelet/kubepods/besteffort/pod" + uid + "/" + cid, uid, cid[:12], "/docker/" + node + "/kubelet/kubepods/besteffort/pod" + uid + "/" + cid},
		{"/system.slice/docker-" + node + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uid_ + ".slice/cri-containerd-" + cid + ".scope", uid, cid[:12],
			"/system.slice/docker-" + node + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uid_ + ".slice/cri-containerd-" + cid + ".scope"},
		{"/system.slice/containerd.service/kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + cid, uid, cid[:12], "/system.slice/containerd.service/kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + cid},
		{"/../../kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + cid + ".scope", uid, cid[:12], "/../../kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + cid + ".scope"},
		{"/kubepods", "", "", ""},
		{"/kubepods.slice/kubepods-burstable.slice", "", "", ""},
		{"/system.slice/kubelet.service", "", "", ""},
		{"/docker/" + cid, "", "", ""},
		{"/podman/pod" + uid + "/" + cid, "", "", ""},
	} {
		for _, controllers := range []string{"", "memory"} {
			h := &workload.Hint{User: "nobody", Cgroups: []workload.Path{{Controllers: "name=systemd", Path: "/"}, {Controllers: controllers, Path: tt.path}}}
			got, ok := New(nil).Resolve(h)
			want := workload.Identity{}
			if tt.uid != "" {
				want = workload.Identity{Workload: workload.ID("pod/" + tt.uid), Part: tt.part, Owner: Owner, Cgroup: tt.cgroup}
			}
			if got != want || ok != (tt.uid != "") {
				t.Errorf("%s:\n got %+v\nwant %+v", tt.path, got, want)
			}
		}
	}
}

type names map[string]Name

func (n names) PodName(uid, container string) (Name, bool) { v, ok := n[uid+container]; return v, ok }

func TestNames(t *testing.T) {
	path := burst + "/crio-" + cid + ".scope"
	for _, tt := range []struct {
		name        Name
		id          workload.ID
		part, owner string
	}{
		{Name{Namespace: "shop", Pod: "cart-5d4-x", ControllerKind: "Deployment", Controller: "cart", Container: "app"}, "deployment/shop/cart", "cart-5d4-x/app", "shop"},
		{Name{Namespace: "train", Pod: "resnet-x", ControllerKind: "Job", Controller: "resnet", Container: "main"}, "job/train/resnet", "resnet-x/main", "train"},
		{Name{Namespace: "kube-system", Pod: "cilium-x", ControllerKind: "DaemonSet", Controller: "cilium"}, "daemonset/kube-system/cilium", "cilium-x", "kube-system"},
		{Name{Namespace: "dev", Pod: "shell", Container: "sh"}, "pod/dev/shell", "sh", "dev"},
		{Name{Pod: "half"}, "pod/" + uid, cid[:12], Owner},
		{Name{Namespace: "a\n/b", Pod: "c"}, "pod/a??b/c", "", "a??b"},
	} {
		got, ok := New(names{uid + cid: tt.name}).Resolve(&workload.Hint{Cgroups: []workload.Path{{Path: path}}})
		if !ok || got.Workload != tt.id || got.Part != tt.part || got.Owner != tt.owner || got.Cgroup != path {
			t.Errorf("%+v: %+v", tt.name, got)
		}
	}
}
