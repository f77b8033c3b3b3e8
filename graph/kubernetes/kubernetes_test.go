package kubernetes_test

import (
	"maps"
	"testing"

	"reckon/graph/kubernetes"
	"reckon/graph/object"
)

func TestParseQuantity(t *testing.T) {
	for s, want := range map[string]float64{
		"1930m": 1.93, "1Ti": 1 << 40, "170Mi": 170 << 20, "0.5": 0.5, "12e6": 12e6, "1E": 1e18, "1Ei": 1 << 60, "100500": 100500, "5k": 5000, "1n": 1e-9, "-1": -1, "1e-3": 0.001,
	} {
		got, err := kubernetes.ParseQuantity(s)
		if err != nil || float64(got) != want {
			t.Errorf("%s is %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "1KiB", "1/3", "1e999999999", "1e31", "Ki", "0x10", "1_000", "inf"} {
		if got, err := kubernetes.ParseQuantity(s); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
	if _, err := kubernetes.ParseQuantity("1e30"); err != nil {
		t.Error(err)
	}
}

func TestEffectiveRequest(t *testing.T) {
	w, err := kubernetes.Workload([]byte(`{"kind":"Deployment","metadata":{"name":"a","namespace":"n","uid":"u"},"spec":{"template":{"metadata":{"annotations":{"reckon.io/reads":"maps, ,weather"}},"spec":{
		"volumes":[{"persistentVolumeClaim":{"claimName":"c"}},{"secret":{"secretName":"s"}},{"emptyDir":{}}],
		"initContainers":[{"resources":{"requests":{"cpu":"3"}}},{"restartPolicy":"Always","resources":{"requests":{"cpu":"500m"}}}],
		"containers":[{"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}},{"resources":{"requests":{"cpu":1}}}]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Requests(); !maps.Equal(got, object.Amounts{object.CPU: 3}) { // the first init container requests more than 1 + 1 + 0.5
		t.Error(got)
	}
	if got := w.Limits(); len(got) != 0 { // one container has no limit, so the whole has none
		t.Error(got)
	}
	if len(w.Reads) != 3 || w.Reads[2] != (object.Data{Kind: "dataset", Name: "weather"}) {
		t.Error(w.Reads)
	}
}

func TestStateOfJob(t *testing.T) {
	for status, want := range map[string]string{
		`{}`: "Running -", `{"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:01:00Z"}]}`: "Complete 1m0s",
		`{"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True","lastTransitionTime":"2026-01-01T00:00:09Z"}]}`: "Failed 9s",
		`{"conditions":[{"type":"Suspended","status":"True"}]}`: "Suspended -", `{"conditions":[{"type":"Suspended","status":"False"},{"type":"Complete","status":"False"}]}`: "Running -",
	} {
		w, err := kubernetes.Workload([]byte(`{"kind":"Job","metadata":{"name":"j"},"status":` + status + `}`))
		took := "-"
		if !w.End.IsZero() {
			took = w.End.Sub(w.Start).String()
		}
		if got := w.State + " " + took; err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", status, got, err, want)
		}
	}
	if w, err := kubernetes.Workload([]byte(`{"kind":"Deployment","status":{"conditions":[{"type":"Complete","status":"True"}]}}`)); err != nil || w.State != "" {
		t.Error(w.State, err)
	}
}

func TestBadObjects(t *testing.T) {
	for _, raw := range []string{`{`, `[]`, `{"status":{"allocatable":{"cpu":"many"}}}`, `{"metadata":{"annotations":{"glaciation-project.eu/node-energy-index":"low"}}}`} {
		if _, err := kubernetes.Node([]byte(raw)); err == nil {
			t.Errorf("%s is a node", raw)
		}
	}
	if _, err := kubernetes.Workload([]byte(`{"spec":{"template":{"metadata":{"annotations":{"glaciation-project.eu/energy-capacity":"x"}}}}}`)); err == nil {
		t.Error("an annotation that is no quantity is taken")
	}
}

func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","uid":5,"ownerReferences":[{"kind":"Node","name":"n"}]},"status":{"containerStatuses":[{"state":{"terminated":{"finishedAt":"2024-01-01T00:00:00Z"}}}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if w, err := kubernetes.Workload(raw); err == nil {
			w.Requests()
			w.Limits()
		}
		_, _ = kubernetes.Pod(raw)
		_, _ = kubernetes.Node(raw)
	})
}
