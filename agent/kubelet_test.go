package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reckon/internal/cgpath"
	"reckon/metric"
	"reckon/sensor"
	"reckon/web/client"
	"reckon/workload"
)

// kubeletServer answers as a kubelet does.
type kubeletServer struct {
	mu     sync.Mutex
	items  string
	status int
}

func (k *kubeletServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.status != 0 {
		w.WriteHeader(k.status)
		return
	}
	fmt.Fprintf(w, `{"items":[%s]}`, k.items)
}

func (k *kubeletServer) say(items string, status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.items, k.status = items, status
}

// containerGroup makes a control group of version 2 as a kubelet names a container's.
func containerGroup(t *testing.T, uid, id string) *os.File {
	t.Helper()
	text, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	var base string
	for _, m := range cgpath.ParseMounts(text) {
		if m.V2 && m.Root == "/" {
			base = m.Point
		}
	}
	for line := range strings.Lines(string(own)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && base != "" {
			base += strings.TrimSuffix(p, "/")
		}
	}
	if base == "" {
		t.Skip("version 2 of control groups is not mounted")
	}
	for _, name := range []string{fmt.Sprintf("reckon-test-%d", os.Getpid()), "kubepods", "pod" + uid, id} {
		base += "/" + name
		if err := os.Mkdir(base, 0o755); err != nil && !os.IsExist(err) {
			t.Skipf("control groups cannot be made here: %v", err)
		}
		t.Cleanup(func() { _ = os.Remove(base) })
	}
	f, err := os.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.Close()
		for dir := base; strings.Contains(dir, "reckon-test-"); dir = filepath.Dir(dir) {
			_ = os.Remove(dir)
		}
	})
	return f
}

// TestPodsAreNamed: a pod that begins is named in the first export that has it. While the kubelet refuses, figures go on
// under the UID, and reckon_sensor_up explains why.
func TestPodsAreNamed(t *testing.T) {
	const (
		uid1 = "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a001"
		uid2 = "0a3f2f9c-3a5f-4f0b-8f0e-c1f6b1d0a002"
		cid  = "22f44d2a517778590e2d8bcafafe501f79e8a509e5b6de70b7700c4d37722bce"
	)
	server := &kubeletServer{}
	node := httptest.NewTLSServer(server)
	defer node.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := open(t, Config{Source: "procfs", Node: "n1", Kubelet: Kubelet{Address: node.URL, TokenFile: token, Insecure: true, Account: []string{"team"}}})
	run := func(uid string) {
		group := containerGroup(t, uid, cid)
		c := exec.Command("sleep", "60")
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
		if err := c.Start(); err != nil {
			t.Skip("not available here: ", err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	var b metric.Batch
	pods := func() (out []string) {
		b.Reset(time.Now())
		a.ledger.Export(&b)
		for _, s := range b.Samples {
			values := strings.Join(s.Series.Values, "|") // a cluster may run here
			if ours := strings.Contains(values, uid1) || strings.Contains(values, uid2) || strings.Contains(values, "shop/cart"); ours && s.Series.Desc.Name == "reckon_workload_info" && !s.Ended() {
				out = append(out, values)
			}
		}
		return out
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	until := func(what string, ok func([]string) bool) {
		for limit := time.Now().Add(time.Minute); ; <-tick.C {
			if err := a.tick(); err != nil {
				t.Fatal(err)
			}
			got := pods()
			if ok(got) {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: %q", what, got)
			}
		}
	}
	until("nothing yet", func(got []string) bool { return len(got) == 0 })
	run(uid1)
	server.say(`{"metadata":{"name":"cart-5d4-x","namespace":"shop","uid":"`+uid1+`","labels":{"pod-template-hash":"5d4","team":"web"},"ownerReferences":[{"kind":"ReplicaSet","name":"cart-5d4","controller":true}]},`+
		`"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m","memory":"64Mi"},"limits":{"memory":"128Mi"}}}]},"status":{"phase":"Running","containerStatuses":[{"name":"app","containerID":"containerd://`+cid+`","restartCount":3,"state":{"running":{}}}]}},`+
		`{"metadata":{"name":"pull","namespace":"shop","uid":"u3"},"spec":{"containers":[{"name":"app"}]},"status":{"phase":"Pending","containerStatuses":[{"name":"app","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":3,"reason":"Error"}}}]}}`, 0)
	until("the pod is named", func(got []string) bool {
		if len(got) == 0 {
			return false
		}
		if len(got) != 1 || got[0] != "deployment/shop/cart|deployment|cart-5d4-x/app|shop|shop/cart|web||sleep" {
			t.Fatalf("the first export has %q", got)
		}
		return true
	})
	for name, want := range map[string]float64{
		"reckon_workload_request_cores": 0.2, "reckon_workload_request_memory_bytes": 64 << 20, "reckon_workload_limit_memory_bytes": 128 << 20,
		"reckon_container_restarts_total": 3, "reckon_container_info": 1,
	} {
		if got, n := sum(&b, name, "workload", "deployment/shop/cart"); got != want || n != 1 {
			t.Errorf("%s is %v in %d series, want %v", name, got, n, want)
		}
	}
	if _, n := sum(&b, "reckon_workload_limit_cores"); n != 0 {
		t.Error("a limit that nobody set")
	}
	a.export(time.Now())
	for name, want := range map[string]float64{"reckon_container_waiting": 1, "reckon_container_restarts_total": 4, "reckon_container_exit_code": 3} {
		if got, n := sum(&a.batch, name, "workload", "pod/shop/pull", "part", "app"); got != want || n != 1 {
			t.Errorf("%s of a container that waits is %v in %d series, want %v", name, got, n, want)
		}
	}
	if got, n := sum(&a.batch, "reckon_pod_network_bytes_total", "workload", "deployment/shop/cart", "part", "cart-5d4-x", "owner", "shop"); n < 2 || n%2 != 0 || got < 0 {
		t.Errorf("%v bytes passed the devices of the pod, in %d series, want two of each device", got, n)
	}
	// What has ended in a container is in the group of the pod still.
	group := containerGroup(t, uid1, cid)
	c := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	b.Reset(time.Now())
	a.exportPodGroups(&b)
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(group.Name()), "cpu.stat"))
	var usage float64
	if _, err := fmt.Sscanf(string(text), "usage_usec %f", &usage); err != nil {
		t.Fatal(string(text), err)
	}
	if got, n := sum(&b, "reckon_pod_cpu_seconds_total", "part", "cart-5d4-x"); n != 2 || usage < 1e4 || got < 0.9*usage/1e6 || got > usage/1e6+1e-9 {
		t.Errorf("the group of the pod used %v s in %d series, want %v", got, n, usage/1e6)
	}
	v := a.resolveOwner(&sensor.Origin{Workload: "pod/" + uid1, Placed: true})
	if v.err != nil || v.subject != (figureSubject{"deployment/shop/cart", "cart-5d4-x", "shop"}) {
		t.Errorf("figures of the pod are of %+v", v)
	}
	if v := a.resolveOwner(&sensor.Origin{Workload: "pod/" + uid1}); v.err == nil {
		t.Errorf("a stranger that names the pod: %+v", v)
	}

	server.say("", http.StatusForbidden)
	run(uid2)
	until("the other goes on under its UID", func(got []string) bool { return len(got) == 2 })
	if got := pods(); !strings.HasPrefix(got[1], "pod/"+uid2+"|pod|"+cid[:12]+"|kubernetes|") {
		t.Errorf("%q", got)
	}
	a.export(time.Now())
	if !slices.ContainsFunc(a.Sensors(), func(s client.Sensor) bool {
		return s.Sensor == "kubelet" && !s.Up && strings.HasPrefix(s.Reason, "the kubelet refuses: 403 Forbidden (give a token ")
	}) {
		t.Errorf("the kubelet refuses, and reckon_sensor_up does not say so: %v", a.Sensors())
	}
}

// TestNamelessPods: without a kubelet a note reports once that pods have no names.
func TestNamelessPods(t *testing.T) {
	a := open(t, Config{Source: "procfs", Node: "n1", Kubelet: Kubelet{Address: "auto"}})
	for range 2 {
		a.warnNameless(&workload.Identity{Place: "u/c"})
		a.export(time.Now())
		if v, n := sum(&a.batch, "reckon_sensor_up", "sensor", "kubelet"); v != 0 || n != 1 {
			t.Errorf("reckon_sensor_up is %v in %d series", v, n)
		}
	}
	if _, _, err := Open(Config{Source: "procfs", Kubelet: Kubelet{Address: "here"}}); err == nil || !strings.Contains(err.Error(), "write it like https://") {
		t.Errorf("an address that is none: %v", err)
	}
}

// TestEndedPodsAreListed: pods and containers that ended before the agent was started are reported for as long as the kubelet lists
// them, to the server too; the view kube has all of it once, and the view cadvisor, of what is measured, nothing.
func TestEndedPodsAreListed(t *testing.T) {
	const id = "22f44d2a517778590e2d8bcafafe501f79e8a509e5b6de70b7700c4d37722bce"
	ended := `{"terminated":{"exitCode":137,"reason":"OOMKilled","containerID":"containerd://` + id + `"}}`
	server := httptest.NewServer(&kubeletServer{items: `{"metadata":{"namespace":"shop","name":"done","uid":"01042b28-179d-446a-954a-7266557e12cd","creationTimestamp":"2026-11-22T06:00:03Z"},
		"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"i:1","resources":{"requests":{"cpu":"200m"}}}]},
		"status":{"phase":"Failed","qosClass":"Burstable","containerStatuses":[{"name":"main","containerID":"containerd://` + id + `","state":` + ended + `}]}},
		{"metadata":{"namespace":"shop","name":"loop","uid":"01042b28-179d-446a-954a-7266557e12ce"},
		"spec":{"containers":[{"name":"main","image":"i:1"}]},
		"status":{"phase":"Running","containerStatuses":[{"name":"main","containerID":"containerd://` + id + `","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":` + ended + `}]}}`})
	defer server.Close()
	for _, views := range [][]string{{"cadvisor"}, {"cadvisor", "kube"}} {
		a, _, err := Open(Config{Node: "n1", Source: "procfs", Kubelet: Kubelet{Address: server.URL}, Compat: views, Expose: true})
		if err != nil {
			t.Fatal(err)
		}
		var page metric.Batch
		for range 2 {
			if err := a.tick(); err != nil {
				t.Fatal(err)
			}
			a.export(time.Now())
			page = metric.Batch{}
			if err := a.Gather(&page); err != nil {
				t.Fatal(err)
			}
		}
		want := 0
		if len(views) == 2 {
			want = 1
		}
		for name, labels := range map[string][]string{
			"kube_pod_container_status_terminated_reason": {"pod", "done", "reason", "OOMKilled"},
			"kube_pod_container_resource_requests":        {"pod", "done", "resource", "cpu"},
			"kube_pod_owner":                              {"pod", "done", "owner_kind", "<none>"},
			"kube_pod_created":                            {"pod", "done"},
			"kube_pod_container_status_waiting":           {"pod", "loop"},
		} {
			if v, n := sum(&page, name, labels...); n != want || n == 1 && v != 1 && !strings.HasSuffix(name, "_created") && !strings.HasSuffix(name, "_requests") {
				t.Errorf("views %v: %s is %v in %d series, want %d", views, name, v, n, want)
			}
		}
		if v, n := sum(&page, "kube_pod_container_status_restarts_total", "pod", "loop"); int(v) != 4*want || n != want {
			t.Errorf("views %v: %v restarts in %d series", views, v, n)
		}
		if v, n := sum(&page, "kube_pod_status_phase", "pod", "done", "phase", "Failed"); int(v) != want || n != want {
			t.Errorf("views %v: phase Failed is %v in %d series", views, v, n)
		}
		if _, n := sum(&page, "container_last_seen", "pod", "done"); n != 0 {
			t.Errorf("views %v: cAdvisor's view shows what has ended", views)
		}
		for name, labels := range map[string][]string{
			"reckon_container_exit_code": {"workload", "pod/shop/done", "part", "main", "reason", "OOMKilled"},
			"reckon_pod_phase":           {"workload", "pod/shop/done", "part", "", "phase", "Failed"},
			"reckon_container_waiting":   {"workload", "pod/shop/loop", "reason", "CrashLoopBackOff"},
		} {
			if _, n := sum(&a.batch, name, labels...); n != 1 {
				t.Errorf("views %v: the server gets %d series of %s", views, n, name)
			}
		}
		if _, n := sum(&a.batch, "reckon_container_request_cores"); n != 0 {
			t.Errorf("views %v: the server gets requests of what has ended", views)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}
