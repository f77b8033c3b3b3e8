package kubelet

import (
	"math"
	"strings"
	"testing"
)

func TestQuantity(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "1": 1, "200m": 0.2, "0.5": 0.5, ".5": 0.5, "1.": 1, "1e3": 1000, "1E3": 1000, "2k": 2000, "2G": 2e9, "1E": 1e18,
		"128Mi": 128 << 20, "1Ki": 1024, "1.5Gi": 1.5 * (1 << 30), "1Ei": 1 << 60, "100n": 1e-7, "5u": 5e-6, "+1": 1,
		"": -1, "-1": -1, "1K": -1, "m": -1, "1mi": -1, "x": -1, "inf": -1, "NaN": -1, "0x10": -1, "1p3": -1, "1_000": -1, "1 Mi": -1, "1MiB": -1, "1.2.3": -1, "1e999": -1,
	} {
		got, ok := parseQuantity(text)
		if ok != (want >= 0) || ok && math.Abs(got-want) > 1e-9*want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

// TestWhole: what pods ask for as the scheduler counts it (KEP-753 has the cases).
func TestWhole(t *testing.T) {
	c := func(of Type, request, limit float64) Container {
		return Container{Type: of, ID: "x", Request: Resources{Cores: request, MemoryBytes: request}, Limit: Resources{Cores: limit, MemoryBytes: limit}}
	}
	for what, x := range map[string]struct {
		list           []Container
		request, limit float64
	}{
		"nothing":                        {nil, 0, 0},
		"one":                            {[]Container{c(Main, 1, 2)}, 1, 2},
		"two":                            {[]Container{c(Main, 1, 2), c(Main, 2, 3)}, 3, 5},
		"one has no limit":               {[]Container{c(Main, 1, 2), c(Main, 2, 0)}, 3, 0},
		"a larger init container":        {[]Container{c(Init, 5, 6), c(Main, 1, 2)}, 5, 6},
		"init containers follow another": {[]Container{c(Init, 2, 2), c(Init, 2, 2), c(Main, 1, 1)}, 2, 2},
		"a sidecar":                      {[]Container{c(Sidecar, 1, 1), c(Main, 2, 2)}, 3, 3},
		"an init container beside it":    {[]Container{c(Sidecar, 1, 1), c(Init, 4, 4), c(Main, 2, 2)}, 5, 5},
		"one before it":                  {[]Container{c(Init, 4, 4), c(Sidecar, 1, 1), c(Main, 2, 2)}, 4, 4},
		"an ephemeral one counts not":    {[]Container{c(Main, 1, 2), c(Ephemeral, 0, 0)}, 1, 2},
	} {
		p := Pod{Containers: x.list}
		if r, l := p.Request(), p.Limit(); r.Cores != x.request || r.MemoryBytes != x.request || l.Cores != x.limit || l.MemoryBytes != x.limit {
			t.Errorf("%s: %+v, %+v", what, r, l)
		}
	}
	p := Pod{Containers: []Container{c(Main, 1, 0)}, Overhead: Resources{Cores: 0.25}}
	p.Own.Request.MemoryBytes, p.Own.Limit.Cores = 7, 8
	if r, l := p.Request(), p.Limit(); r != (Resources{Cores: 1.25, MemoryBytes: 7}) || l != (Resources{Cores: 8}) {
		t.Errorf("amounts of the pod as such: %+v, %+v", r, l)
	}
}

// TestEnds: a container that ended again before it is begun again or waits has two ends.
func TestEnds(t *testing.T) {
	const last = `"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}`
	for what, x := range map[string]struct {
		status          string
		running         bool
		ended, before   int // -1 for none
		waiting, reason string
	}{
		"its first run":    {`"state":{"running":{}}`, true, -1, -1, "", ""},
		"ended once":       {`"state":{"terminated":{"exitCode":3,"reason":"Error"}}`, false, 3, -1, "", "Error"},
		"begun again":      {`"state":{"running":{}},` + last, true, 1, -1, "", "Error"},
		"ended again":      {`"state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}},` + last, false, 137, 1, "", "OOMKilled"},
		"in the back-off":  {`"state":{"waiting":{"reason":"CrashLoopBackOff"}},` + last, false, 1, -1, "CrashLoopBackOff", "Error"},
		"nothing reported": {`"state":{}`, false, -1, -1, "", ""},
	} {
		list, err := Decode(strings.NewReader(`{"items":[{"metadata":{"uid":"u"},"spec":{"containers":[{"name":"c"}]},"status":{"containerStatuses":[{"name":"c",` + x.status + `}]}}]}`))
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %v", what, err)
		}
		c := list[0].Containers[0]
		code := func(e *End) int {
			if e == nil {
				return -1
			}
			return e.ExitCode
		}
		if c.Running != x.running || code(c.Ended) != x.ended || code(c.Before) != x.before || c.Waiting != x.waiting || c.Ended != nil && c.Ended.Reason != x.reason {
			t.Errorf("%s: %+v, ended %+v, before %+v", what, c, c.Ended, c.Before)
		}
	}
}

// TestReady: readiness and the address of the node, as the kubelet of 1.34 reports them.
func TestReady(t *testing.T) {
	list, err := Decode(strings.NewReader(`{"items":[{"metadata":{"uid":"u"},"spec":{"containers":[{"name":"c"}],"initContainers":[{"name":"i"}]},
		"status":{"hostIP":"10.199.0.10","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"False"},{"type":"ContainersReady","status":"True"}],
		"containerStatuses":[{"name":"c","ready":true,"state":{"running":{}}}],"initContainerStatuses":[{"name":"i","state":{"running":{}}}]}},{"metadata":{"uid":"v"}}]}`))
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if p := list[0]; p.HostIP != "10.199.0.10" || p.Ready != "False" || p.Containers[0].Ready || !p.Containers[1].Ready {
		t.Errorf("%+v", p)
	}
	if p := list[1]; p.HostIP != "" || p.Ready != "" {
		t.Errorf("%+v", p)
	}
}
