package rightsize

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/quick"

	"reckon/metric"
)

// used is a day with the given number of seconds at each level of cores.
func used(seconds int, cores ...float64) Day {
	h := &metric.Histogram{}
	for _, c := range cores {
		for range seconds {
			h.Observe(c)
		}
	}
	return Day{Cores: h}
}

func repeat(n int, d Day) []Day {
	out := make([]Day, n)
	for i := range out {
		out[i] = d
	}
	return out
}

// within reports whether a request is about as expected: buckets are 9 % wide.
func within(v *float64, want float64) bool { return v != nil && *v >= want*0.95 && *v <= want*1.1 }

func TestServiceCores(t *testing.T) {
	steady := used(1000, 0.5)
	many := make([]float64, 0, 1000)
	for i := range 1000 {
		switch {
		case i < 2: // 0.2 % of the time, and expensive
			many = append(many, 64)
		case i < 60: // 6 %
			many = append(many, 1)
		default:
			many = append(many, 0.25)
		}
	}
	for _, c := range []struct {
		name string
		days []Day
		want float64 // 0: none
	}{
		{"no day", nil, 0},
		{"one day", repeat(1, steady), 0},
		{"two days", repeat(2, steady), 0.5},
		{"two days, one not measured", append(repeat(1, steady), Day{}), 0},
		{"bursts for 6 % of the time count, those of 0.2 % that cost 64 times do not", repeat(14, used(1, many...)), 1},
		{"four weeks ago it used more", append(repeat(2, used(1000, 8)), repeat(28, steady)...), 0.5},
		{"yesterday it used more", append(repeat(13, steady), used(1000, 8)), 8},
		{"never used", repeat(14, used(1000, 0)), 0.01},
	} {
		a := Service(c.days, Request{}, ServiceDefault())
		switch {
		case c.want == 0 && a != nil:
			t.Errorf("%s: %+v", c.name, *a)
		case c.want > 0 && (a == nil || !within(a.Cores, c.want)):
			t.Errorf("%s: got %+v, want about %g", c.name, a, c.want)
		}
	}
}

func peaks(values ...float64) []Day {
	var out []Day
	for i := range values {
		out = append(out, Day{MemoryPeak: &values[i]})
	}
	return out
}

func TestServiceMemory(t *testing.T) {
	level := []float64{gib, gib, gib, gib, gib, gib}
	for _, c := range []struct {
		name string
		days []Day
		now  Request
		want float64
		why  string
	}{
		{"one day", peaks(gib), Request{}, 0, ""},
		{"six days", peaks(level...), Request{}, 1.25 * gib, "its highest peak in 6 days was 1 GiB"}, // 15 % more, rounded up
		{"seven days that are all alike", peaks(append(level, gib)...), Request{}, gib, ""},
		{"one far above the others is covered", peaks(append(level, gib, 4*gib)...), Request{}, 4.25 * gib, ""}, // mean and four deviations are 5.3
		{"fifteen days ago is gone", append(peaks(8*gib), peaks(append(level, append(level, gib, gib)...)...)...), Request{}, gib, ""},
		{"killed", append(peaks(append(level, gib)...), Day{OutOfMemory: true}), Request{Memory: at(2 * gib)}, 3 * gib, "killed for lack of memory"},
		{"killed, no request", append(peaks(append(level, gib)...), Day{OutOfMemory: true}), Request{}, 1.5 * gib, ""},
	} {
		a := Service(c.days, c.now, ServiceDefault())
		switch {
		case c.want == 0:
			if a != nil {
				t.Errorf("%s: %+v", c.name, *a)
			}
		case a == nil || a.Memory == nil || math.Abs(*a.Memory-c.want) > 0.5*gib || !strings.Contains(whole(a.Why), c.why):
			t.Errorf("%s: got %+v, want %g", c.name, a, c.want/gib)
		}
	}
}

// TestMemoryHoldsThePeak: for any peaks, the request is at least the highest, and at most 15 % above it.
func TestMemoryHoldsThePeak(t *testing.T) {
	f := func(values []uint32) bool {
		var list []float64
		for _, v := range values {
			list = append(list, float64(v)+1)
		}
		days := peaks(list...)
		v, ok := Memory(days, ServiceDefault())
		if len(list) < LeastDays {
			return !ok
		}
		most := 0.0
		for _, p := range list[max(0, len(list)-MemoryDays):] {
			most = max(most, p)
		}
		return ok && v >= most*(1-1e-9) && v <= mostMemory*most*(1+1e-9)
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}

// TestServiceTests compares the back-test with direct counting, for a known request and known days.
func TestServiceTests(t *testing.T) {
	days := repeat(6, used(100, 1, 1, 1, 3)) // 3 cores for a quarter of the time
	a := Service(days, Request{Cores: at(2)}, ServiceDefault())
	if a == nil || a.NowCores == nil || a.NowCores.Days != 4 {
		t.Fatalf("%+v", a)
	}
	// 1 of 2 cores is idle for three quarters of the time.
	if math.Abs(a.NowCores.Above-0.25) > 1e-9 || math.Abs(a.NowCores.Slack-0.375) > 0.03 {
		t.Errorf("%+v", *a.NowCores)
	}
	if a.TestedCores.Above != 0 || !within(a.Cores, 3) {
		t.Errorf("%+v, %g cores", *a.TestedCores, *a.Cores)
	}
	memory := Service(peaks(100<<20, 100<<20, 100<<20, 200<<20, 100<<20), Request{Memory: at(400 << 20)}, ServiceDefault())
	if m := memory.TestedMemory; m == nil || m.Days != 3 || math.Abs(m.Above-1.0/3) > 1e-9 {
		t.Errorf("%+v", m)
	}
	if m := memory.NowMemory; m == nil || math.Abs(m.Slack-(1-4.0/12)) > 1e-9 || m.Above != 0 {
		t.Errorf("%+v", m)
	}
}

// TestRequestSeesNoFuture: the request after a day does not depend on later days.
func TestRequestSeesNoFuture(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var days []Day
	for range 20 {
		h := &metric.Histogram{}
		for range 500 {
			h.Observe(math.Abs(r.NormFloat64()))
		}
		days = append(days, Day{Cores: h, MemoryPeak: at(gib * (1 + r.Float64()))})
	}
	v, _ := Cores(days[:15], ServiceDefault())
	m, _ := Memory(days[:15], ServiceDefault())
	days[15].Cores.Observe(1e6)
	*days[15].MemoryPeak = 1e15
	v2, _ := Cores(days[:15], ServiceDefault())
	m2, _ := Memory(days[:15], ServiceDefault())
	if v != v2 || m != m2 {
		t.Error("a later day changed an earlier request")
	}
}

func TestServiceGPUs(t *testing.T) {
	days := repeat(3, used(100, 1))
	days[1].GPUs, days[2].GPUs = at(0.25), at(0.1)
	a := Service(days, Request{}, ServiceDefault())
	if a.GPUShare == nil || *a.GPUShare != 0.25 || !strings.Contains(whole(a.Why), "0.25 were busy on average") {
		t.Errorf("%+v", a)
	}
}

func TestServiceObjects(t *testing.T) {
	list := []Container{{"web", &ServiceAdvice{Cores: at(0.25), Memory: at(256 << 20)}}, {"proxy", &ServiceAdvice{Cores: at(1.5)}}}
	const patch = `{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"250m","memory":"256Mi"}}},{"name":"proxy","resources":{"requests":{"cpu":"1500m"}}}]}}}}`
	if got := Patch("deployment", list); got != patch {
		t.Errorf("got %s", got)
	}
	var vpa struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			TargetRef      struct{ Kind, Name string }
			UpdatePolicy   struct{ UpdateMode string }
			ResourcePolicy struct {
				ContainerPolicies []struct {
					ContainerName          string
					MinAllowed, MaxAllowed map[string]string
				}
			}
		}
		Status any // kubectl drops it
	}
	if err := json.Unmarshal([]byte(VPA("statefulset", "statefulset/shop/db", list)), &vpa); err != nil {
		t.Fatal(err)
	}
	if r := vpa.Spec.ResourcePolicy.ContainerPolicies; vpa.Kind != "VerticalPodAutoscaler" || vpa.Metadata.Namespace != "shop" || vpa.Spec.TargetRef.Kind != "StatefulSet" || vpa.Spec.TargetRef.Name != "db" || vpa.Spec.UpdatePolicy.UpdateMode != "Off" || len(r) != 2 || vpa.Status != nil ||
		r[0].MinAllowed["cpu"] != "250m" || r[0].MaxAllowed["cpu"] != "250m" {
		t.Errorf("%+v", vpa)
	}
	if got, want := Paste("deployment", list), "- name: web\n  resources:\n    requests:\n      cpu: \"0.25\"\n      memory: 256Mi\n    limits:\n      memory: 256Mi\n- name: proxy\n  resources:\n    requests:\n      cpu: \"1.5\""; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Paste("unit", list[:1]); got != "[Service]\nMemoryMax=256M" {
		t.Errorf("got %s", got)
	}
	if Patch("unit", list) != "" || VPA("pod", "pod/shop/x", list) != "" || Paste("unit", list[1:]) != "" {
		t.Error("an object for what has none")
	}
}

// TestVPAText holds the objects that the operator's tests apply to an API server.
func TestVPAText(t *testing.T) {
	cores, memory := 0.25, float64(300<<20)
	list := []Container{{"app", &ServiceAdvice{Cores: &cores, Memory: &memory}}, {"log", &ServiceAdvice{Memory: &memory}}}
	var lines []string
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		lines = append(lines, VPA(kind, kind+"/default/"+kind+"-cart", list))
	}
	const file = "../../kubernetes/operator/crd/testdata/vpa.json"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, "\n") + "\n"; got != string(want) {
		t.Errorf("%s is not what is written now:\n%s", file, got)
	}
}
