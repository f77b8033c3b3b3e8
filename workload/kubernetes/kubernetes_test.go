package kubernetes

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"reckon/internal/kubelet"
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
	workloadtest.Test(t, func() workload.Resolver { return New(Options{}) })
	workloadtest.Test(t, func() workload.Resolver { return New(Options{Pods: list{}}) })
}

func FuzzResolve(f *testing.F) {
	workloadtest.Fuzz(f, func() workload.Resolver { return New(Options{}) }, burst+"/crio-"+cid+".scope", "/kubepods/pod"+uid+"/"+cid,
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
		{"/kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + cid + ".scope", uid, cid[:12],
			"/kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + cid + ".scope"},
		{
			"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + uid_ +
				".slice/cri-containerd-" + cid + ".scope", uid, cid[:12],
			"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + uid_ +
				".slice/cri-containerd-" + cid + ".scope"},
		{"/docker/" + node + "/kubelet/kubepods/besteffort/pod" + uid + "/" + cid, uid, cid[:12],
			"/docker/" + node + "/kubelet/kubepods/besteffort/pod" + uid + "/" + cid},
		{
			"/system.slice/docker-" + node + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uid_ +
				".slice/cri-containerd-" + cid + ".scope", uid, cid[:12],
			"/system.slice/docker-" + node + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + uid_ +
				".slice/cri-containerd-" + cid + ".scope"},
		{"/system.slice/containerd.service/kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + cid, uid, cid[:12],
			"/system.slice/containerd.service/kubepods-burstable-pod" + uid_ + ".slice:cri-containerd:" + cid},
		{"/../../kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + cid + ".scope", uid, cid[:12],
			"/../../kubepods.slice/kubepods-pod" + uid_ + ".slice/crio-" + cid + ".scope"},
		{"/kubepods", "", "", ""},
		{"/kubepods.slice/kubepods-burstable.slice", "", "", ""},
		{"/system.slice/kubelet.service", "", "", ""},
		{"/docker/" + cid, "", "", ""},
		{"/podman/pod" + uid + "/" + cid, "", "", ""},
	} {
		for _, controllers := range []string{"", "memory"} {
			h := &workload.Hint{User: "nobody",
				Cgroups: []workload.Path{{Controllers: "name=systemd", Path: "/"}, {Controllers: controllers, Path: tt.path}}}
			got, ok := New(Options{}).Resolve(h)
			want := workload.Identity{}
			if tt.uid != "" {
				want = workload.Identity{
					Workload: workload.ID("pod/" + tt.uid), Part: tt.part, Owner: unknownOwner, Cgroup: tt.cgroup,
					Whole: got.Whole, Place: got.Place, Run: tt.uid,
				}
				if whole, _, _ := strings.Cut(got.Cgroup, got.Whole); got.Whole != "" && whole != "" ||
					!strings.HasPrefix(got.Place, tt.uid+"/"+tt.part) {
					t.Errorf("%s: whole %q, place %q", tt.path, got.Whole, got.Place)
				}
			}
			if got != want || ok != (tt.uid != "") {
				t.Errorf("%s:\n got %+v\nwant %+v", tt.path, got, want)
			}
		}
	}
}

// list is the kubelet's list, as it was recorded.
type list map[string]*kubelet.Pod

func (l list) Pod(uid string) *kubelet.Pod { return l[uid] }
func (l list) Refresh(string)              {}

// pods reads a list of pods.
func pods(t testing.TB, text string) list {
	t.Helper()
	all, err := kubelet.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	l := list{}
	for _, p := range all {
		l[p.UID] = p
	}
	return l
}

// podText is a pod as the kubelet of Kubernetes 1.34 writes it, shortened to the fields read.
func podText(namespace, name, labels, owners, containers, status string) string {
	return fmt.Sprintf(
		`{"items":[{"metadata":{"namespace":%q,"name":%q,"uid":%q,"creationTimestamp":"2026-11-22T06:00:03Z","labels":{%s},`+
			`"ownerReferences":[%s]},"spec":{"restartPolicy":"Always",%s},"status":{"phase":"Running",%s}}]}`,
		namespace, name, uid, labels, owners, containers, status)
}

const app = `"containers":[{"name":"app","image":"i:1","resources":{"requests":{"cpu":"200m","memory":"64Mi"},"limits":{"cpu":"300m"}}}]`

func running(name string) string {
	return `"containerStatuses":[{"name":"` + name + `","containerID":"cri-o://` + cid +
		`","restartCount":2,"state":{"running":{}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled",` +
		`"containerID":"cri-o://old"}}}]`
}

func owned(kind, name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"name":%q,"uid":"u","controller":true}`, kind, name)
}

func TestNames(t *testing.T) {
	path := burst + "/crio-" + cid + ".scope"
	for what, tt := range map[string]struct {
		text, comm  string
		id          workload.ID
		part, owner string
		naming      workload.Naming
		whole       string
	}{
		"a deployment": {podText("shop", "cart-5d4-x", `"pod-template-hash":"5d4"`, owned("ReplicaSet", "cart-5d4"), app, running("app")),
			"", "deployment/shop/cart", "cart-5d4-x/app", "shop", workload.Named, ""},
		"a bare pod": {podText("dev", "shell", "", "", app, running("app")), "", "pod/dev/shell", "app", "dev", workload.Named, burst},
		"its sandbox": {podText("dev", "shell", "", "", app, strings.ReplaceAll(running("app"), cid, "another")), "pause",
			"pod/dev/shell", "", "dev", workload.Named, burst},
		"its next try": {podText("dev", "shell", "", "", app, strings.ReplaceAll(running("app"), cid, "another")), "sh", "pod/dev/shell",
			"app", "dev", workload.Named, burst},
		"it begins": {podText("dev", "shell", "", "", app, strings.ReplaceAll(running("app"), cid, "another")), "runc:[2:INIT]",
			"pod/dev/shell", cid[:12], "dev", workload.HalfNamed, burst},
		"it executes": {podText("dev", "shell", "", "", app, strings.ReplaceAll(running("app"), cid, "another")), "6", "pod/dev/shell",
			cid[:12], "dev", workload.HalfNamed, burst},
		"executes": {podText("kube-system", "cni-x", "", owned("DaemonSet", "cni"), app, `"containerStatuses":[]`), "6",
			"daemonset/kube-system/cni", "cni-x/" + cid[:12], "kube-system", workload.HalfNamed, ""},
		"a new sandbox": {podText("kube-system", "cni-x", "", owned("DaemonSet", "cni"), app, `"containerStatuses":[]`), "pause",
			"daemonset/kube-system/cni", "cni-x", "kube-system", workload.HalfNamed, ""},
		"the only one": {podText("kube-system", "cni-x", "", owned("DaemonSet", "cni"), app, `"containerStatuses":[]`), "sh",
			"daemonset/kube-system/cni", "cni-x/app", "kube-system", workload.Named, ""},
		"begins": {podText("kube-system", "cni-x", "", owned("DaemonSet", "cni"), app, `"containerStatuses":[]`), "runc:[2:INIT]",
			"daemonset/kube-system/cni", "cni-x/" + cid[:12], "kube-system", workload.HalfNamed, ""},
		"no program": {podText("kube-system", "cni-x", "", owned("DaemonSet", "cni"), app, `"containerStatuses":[]`), "",
			"daemonset/kube-system/cni", "cni-x/" + cid[:12], "kube-system", workload.HalfNamed, ""},
		"one of two": {
			podText("kube-system", "cni-x", "", owned("DaemonSet", "cni"), `"initContainers":[{"name":"i"}],`+app,
				`"containerStatuses":[]`), "sh", "daemonset/kube-system/cni", "cni-x/" + cid[:12], "kube-system", workload.HalfNamed, ""},
		"begun again": {
			podText("dev", "shell", "", "", app, strings.ReplaceAll(strings.ReplaceAll(running("app"), cid, "newer"), "//old", "//"+cid)),
			"", "pod/dev/shell", "app", "dev", workload.Named, burst},
		"no such pod": {`{"items":[]}`, "", "pod/" + uid, cid[:12], unknownOwner, workload.Unnamed, burst},
		"without a name": {podText("", "half", "", "", app, running("app")), "", "pod/" + uid, cid[:12], unknownOwner, workload.Unnamed,
			burst},
		"strange names": {podText("a\n/b", "c/d", "", "", app, running("app")), "", "pod/a??b/c?d", "app", "a??b", workload.Named, burst},
	} {
		text := strings.ReplaceAll(tt.text, `\\n`, `\n`)
		r := New(Options{Pods: pods(t, text)})
		got, ok := r.Resolve(&workload.Hint{Comm: tt.comm, Cgroups: []workload.Path{{Path: path}}})
		if !ok || got.Workload != tt.id || got.Part != tt.part || got.Owner != tt.owner || got.Naming != tt.naming || got.Cgroup != path ||
			got.Whole != tt.whole || got.Place != uid+"/"+cid || got.Run != uid {
			t.Errorf("%s: %+v", what, got)
		}
		if later := r.Rename(got.Place, tt.comm); later.Naming != tt.naming || later.Workload != got.Workload || later.Part != got.Part ||
			later.Cgroup != "" || later.Whole != "" {
			t.Errorf("%s, asked again: %+v", what, later)
		}
	}
}

func TestContainer(t *testing.T) {
	r := New(Options{
		Pods: pods(t, podText("shop", "cart-5d4-x", "", owned("ReplicaSet", "cart-5d4"), app, `"qosClass":"Burstable",`+running("app")))})
	half := workload.Amounts{Cores: 0.2, MemoryBytes: 64 << 20}
	want := workload.ContainerFacts{
		Namespace: "shop", Pod: "cart-5d4-x", UID: uid, QoS: "Burstable", Name: "app", Image: "i:1", ID: cid, Type: "main", Restarts: 2,
		PodFacts: workload.PodFacts{OwnerKind: "ReplicaSet", OwnerName: "cart-5d4", Phase: "Running", Created: 1795327203}, Running: true,
		Ended: true, EndedID: "old", ExitCode: 137, Reason: "OOMKilled", Request: half, PodRequest: half,
		Limit: workload.Amounts{Cores: 0.3}, PodLimit: workload.Amounts{Cores: 0.3},
	}
	if got := r.Container(uid+"/"+cid, false); got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := r.Container(uid+"/pause", false); got == nil || got.Type != "sandbox" || got.Request != (workload.Amounts{}) ||
		got.PodRequest != half {
		t.Errorf("the sandbox: %+v", got)
	}
	if got := r.Container(uid+"/old", true); got == nil || got.ID != "old" || got.EndedID != "old" {
		t.Errorf("the one before: %+v", got)
	}
	if got := r.Container("0000/"+cid, false); got != nil {
		t.Errorf("a pod that is not known: %+v", got)
	}
}

// asked notes what the list is asked for.
type asked struct {
	list
	why []string
}

func (a *asked) Refresh(why string) { a.why = append(a.why, why) }

// TestAsksForTheEnd: the list is asked for until it has the end of a container.
func TestAsksForTheEnd(t *testing.T) {
	status := func(state string) string {
		return `"containerStatuses":[{"name":"app","containerID":"cri-o://` + cid + `","state":{` + state + `}}]`
	}
	terminated := `"terminated":{"exitCode":3,"reason":"Error","containerID":"cri-o://` + cid + `"}`
	waiting := `"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{` + terminated
	place := uid + "/" + cid
	for what, tt := range map[string]struct {
		text  string
		ended bool
		want  string
	}{
		"it runs": {status(`"running":{}`), false, ""},
		"it has no id yet": {`"containerStatuses":[{"name":"app","state":{` + `"waiting":{"reason":"ContainerCreating"}` + `}}]`, false,
			place},
		"it ended, unreported": {status(`"running":{}`), true, place + " ended"},
		"it ended":             {status(terminated), true, ""},
		"it waits":             {status(waiting), true, ""},
	} {
		a := &asked{list: pods(t, podText("shop", "cart", "", "", app, tt.text))}
		if f := New(Options{Pods: a}).Container(place, tt.ended); f == nil {
			t.Errorf("%s: nothing is reported", what)
		}
		if got := strings.Join(a.why, ","); got != tt.want {
			t.Errorf("%s: asked for %q, want %q", what, got, tt.want)
		}
	}
}

// TestKata: the virtual machine of a pod, and what its sandbox needs outside of it, are the pod's, in whichever order they are seen.
func TestKata(t *testing.T) {
	const overhead = "/kata_overhead/" + node
	machine := "/kubepods/burstable/pod" + uid + "/kata_" + node
	hint := func(path string) *workload.Hint {
		return &workload.Hint{Comm: "qemu-system-x86", Cgroups: []workload.Path{{Path: path}}}
	}
	for what, l := range map[string]list{
		"named": pods(t, podText("shop", "cart-5d4-x", `"pod-template-hash":"5d4"`, owned("ReplicaSet", "cart-5d4"), app,
			running("app"))),
		"unknown": pods(t, `{"items":[]}`), "no list": nil,
	} {
		o := Options{Pods: l}
		if l == nil {
			o.Pods = nil
		}
		r := New(o)
		early, ok := r.Resolve(hint(overhead))
		if !ok || early.Naming != workload.Unnamed || early.Workload.Kind() != workload.Pod {
			t.Errorf("%s: before the machine: %+v", what, early)
		}
		vm, ok := r.Resolve(hint(machine))
		want := workload.ID("pod/" + uid)
		if what == "named" {
			want = "deployment/shop/cart"
		}
		if !ok || vm.Workload != want || strings.Contains(vm.Part, "kata") || strings.Contains(vm.Part, node[:12]) {
			t.Errorf("%s: the machine: %+v", what, vm)
		}
		later, _ := r.Resolve(hint(overhead))
		for _, got := range []workload.Identity{later, r.Rename(early.Place, "containerd-shim")} {
			if got.Workload != want || got.Part != vm.Part || got.Owner != vm.Owner || got.Run != uid || got.Cgroup != "" {
				t.Errorf("%s: the overhead: %+v, want as %+v", what, got, vm)
			}
		}
	}
}
