package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reckon/internal/kubelet"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// podJSON is a pod in the kubelet's JSON, shortened.
func podJSON(name, uid, phase, ip, annotations, ports string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","uid":%q,"annotations":{%s}},"spec":{"containers":[{"name":"c","ports":[%s]}]},"status":{"phase":%q,"podIP":%q}}`,
		name, uid, annotations, ports, phase, ip)
}

func list(pods ...string) string {
	return `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` + strings.Join(pods, ",") + `]}`
}

func waits(x *target) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.fetched
}

func TestPodTargets(t *testing.T) {
	const on = `"prometheus.io/scrape":"true"`
	for _, c := range []struct {
		pod, want, bad string
	}{
		{podJSON("a", "u1", "Running", "10.0.0.1", on+`,"prometheus.io/port":"80","prometheus.io/path":"m?x=1","prometheus.io/scheme":"HTTPS"`, ""), "pod shop/a 80/m=https://10.0.0.1:80/m?x=1 pod/u1", ""},
		{podJSON("b", "u2", "Running", "fd00::1", on, `{"containerPort":53,"protocol":"UDP"},{"containerPort":81},{"name":"http-metrics","containerPort":82}`), "pod shop/b 82/metrics=http://[fd00::1]:82/metrics pod/u2", ""},
		{podJSON("c", "u3", "Running", "10.0.0.3", `"reckon/metrics":"83, 84/in/side"`, ""), "pod shop/c 83/metrics=http://10.0.0.3:83/metrics pod/u3 pod shop/c 84/in/side=http://10.0.0.3:84/in/side pod/u3", ""},
		{podJSON("d", "u4", "Running", "10.0.0.4", on+`,"kubernetes.io/config.hash":"0123abcd"`, `{"containerPort":85,"protocol":"TCP"}`), "pod shop/d 85/metrics=http://10.0.0.4:85/metrics pod/0123abcd", ""},
		{podJSON("e", "u5", "Running", "10.0.0.5", on, ""), "", "names no port"},
		{podJSON("f", "u6", "Running", "10.0.0.6", `"reckon/metrics":"http://169.254.169.254/"`, ""), "", "is no port"},
		{podJSON("g", "u7", "Running", "10.0.0.7", on+`,"prometheus.io/port":"80","prometheus.io/scheme":"file"`, ""), "", "neither http nor https"},
		{podJSON("h", "u8", "Pending", "10.0.0.8", on, `{"containerPort":85}`), "", ""},
		{podJSON("i", "u9", "Running", "10.0.0.9", `"prometheus.io/scrape":"false","prometheus.io/port":"80"`, ""), "", ""},
	} {
		pods, err := kubelet.Decode(strings.NewReader(list(c.pod)))
		if err != nil {
			t.Fatal(err)
		}
		pages, bad := new(Pods).targets(pods[0])
		var got []string
		for name, x := range pages {
			got = append(got, name+"="+x.URL+" "+x.Workload)
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != c.want || (bad == nil) != (c.bad == "") || bad != nil && !strings.Contains(bad.Error(), c.bad) {
			t.Errorf("got %s, %v; want %s, %s", s, bad, c.want, c.bad)
		}
	}
}

// TestAllPods: pods that offer metrics are scraped without a request, except those that refuse, or specify the address
// themselves.
func TestAllPods(t *testing.T) {
	const metrics = `{"containerPort":80},{"name":"http-metrics","containerPort":82}`
	for _, c := range []struct {
		annotations, ports, want string
	}{
		{"", metrics, "http://10.0.0.1:82/metrics"},
		{"", `{"containerPort":80},{"name":"web","containerPort":82}`, ""},
		{"", `{"name":"metrics","containerPort":82,"protocol":"UDP"}`, ""},
		{`"prometheus.io/scrape":"false"`, metrics, ""},
		{`"prometheus.io/scrape":"true"`, `{"containerPort":80}`, "http://10.0.0.1:80/metrics"},
		{`"prometheus.io/path":"/m","prometheus.io/port":"81"`, metrics, "http://10.0.0.1:81/m"},
		{`"reckon/metrics":"83/in"`, metrics, "http://10.0.0.1:83/in"},
	} {
		pods, err := kubelet.Decode(strings.NewReader(list(podJSON("a", "u1", "Running", "10.0.0.1", c.annotations, c.ports))))
		if err != nil {
			t.Fatal(err)
		}
		pages, bad := (&Pods{All: true}).targets(pods[0])
		var got []string
		for _, x := range pages {
			got = append(got, x.URL)
		}
		if strings.Join(got, " ") != c.want || bad != nil {
			t.Errorf("%s %s: %v, %v; want %s", c.annotations, c.ports, got, bad, c.want)
		}
	}
}

// TestPods: a kubelet that serves its pods, and a program in one of them; later one pod
// is gone, and then the kubelet is down.
func TestPods(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token of the kubelet was shown to a pod")
		}
		fmt.Fprint(w, text)
	}))
	defer exporter.Close()
	port := exporter.URL[strings.LastIndexByte(exporter.URL, ':')+1:]
	answer := atomic.Pointer[string]{}
	say := func(s string) { answer.Store(&s) }
	say(list(
		podJSON("web", "u1", "Running", "127.0.0.1", `"prometheus.io/scrape":"true","prometheus.io/port":"`+port+`"`, ""),
		podJSON("quiet", "u2", "Running", "127.0.0.1", "", `{"containerPort":`+port+`}`),
		podJSON("wrong", "u3", "Running", "127.0.0.1", `"reckon/metrics":"x"`, "")))
	node := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/pods":
			http.NotFound(w, r)
		case r.Header.Get("Authorization") != "Bearer secret":
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
		default:
			fmt.Fprint(w, *answer.Load())
		}
	}))
	defer node.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kubelet.New(kubelet.Config{Address: node.URL, TokenFile: token, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	f := &podFinder{Pods: Pods{Interval: 30 * time.Second}, name: client.URL()}
	ctx, cancel := context.WithCancel(t.Context())
	s := &Sensor{finder: f, now: time.Now, cancel: cancel}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	look := func() {
		pods, err := client.Pods(ctx)
		s.updatePods(ctx, f, pods, err)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for limit := time.Now().Add(2 * time.Minute); slices.ContainsFunc(s.pods, waits); <-tick.C {
			if time.Now().After(limit) {
				t.Fatal("a pod was not asked")
			}
		}
	}
	figures := func() (got map[string]float64, origin sensor.Origin, inputs string) {
		var p sensor.OwnPass
		s.ReadOwn(&p)
		got = map[string]float64{}
		for _, m := range p.Samples {
			got[sensortest.Key(m.Series)] = m.Value
			origin = *m.Origin
		}
		for _, in := range p.Inputs {
			inputs += fmt.Sprintf("%s: %v\n", in.Name, in.Err)
		}
		return got, origin, inputs
	}
	look()
	got, origin, inputs := figures()
	if len(got) != 3 || got["go_threads{}"] != 3 || origin != (sensor.Origin{Workload: "pod/u1", Placed: true}) {
		t.Errorf("got %v of %+v", got, origin)
	}
	if !strings.Contains(inputs, node.URL+"/pods: pod shop/wrong: \"x\" is no port") || !strings.Contains(inputs, "pod shop/web "+port+"/metrics: <nil>") {
		t.Errorf("inputs:\n%s", inputs)
	}
	first := s.pods[0]
	look()
	if len(s.pods) != 1 || s.pods[0] != first {
		t.Error("a pod that goes on is asked by another")
	}
	say("nothing")
	look()
	if got, _, inputs := figures(); len(got) != 3 || !strings.Contains(inputs, "can not be read") {
		t.Errorf("a kubelet that says nothing: %v\n%s", got, inputs)
	}
	if err := os.WriteFile(token, []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	look()
	// The permission nodes/proxy gives root on every pod: no remedy may name it.
	if _, _, inputs := figures(); !strings.Contains(inputs, "may get nodes/pods") || !strings.Contains(inputs, "never grant nodes/proxy") {
		t.Errorf("refused by the kubelet:\n%s", inputs)
	}
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	say(list())
	look()
	if got, _, inputs := figures(); len(got) != 0 || len(s.pods) != 0 || !strings.Contains(inputs, "/pods: <nil>") {
		t.Errorf("the pod is gone: %v\n%s", got, inputs)
	}
}

func TestWrongPods(t *testing.T) {
	for want, p := range map[string]Pods{
		"shorter than 1s": {Interval: time.Millisecond},
	} {
		if _, err := newPodFinder("", p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := New("", nil, nil, nil); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func FuzzPods(f *testing.F) {
	f.Add([]byte(list(podJSON("a", "u", "Running", "10.0.0.1", `"reckon/metrics":"1/a,2"`, ""))))
	f.Add([]byte(list()))
	f.Add([]byte(`{"items":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		pods, _ := kubelet.Decode(bytes.NewReader(raw))
		for i := range pods {
			list, _ := new(Pods).targets(pods[i])
			for name, c := range list {
				if c.Workload == "pod/" || name == "" {
					t.Errorf("%q: %+v", name, c)
				}
				if x, err := newTarget("", c); err == nil && !strings.HasPrefix(x.url, "http") {
					t.Errorf("%s", x.url)
				}
			}
		}
	})
}
