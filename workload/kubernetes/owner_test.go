package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/internal/kubelet"
)

// TestOwners reads testdata/owners: a list of pods each, with the owner that a person names in the file's name
// (KIND_NAME.json, or KIND_NAME~MORE.json). README.md there reports where they come from.
func TestOwners(t *testing.T) {
	files, err := filepath.Glob("testdata/owners/*.json")
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		pods, err := kubelet.Decode(f)
		_ = f.Close()
		if err != nil || len(pods) == 0 {
			t.Fatal(name, err)
		}
		want, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".json"), "~")
		for _, p := range pods {
			if o := findOwner(p); o.Kind+"_"+o.Name != want {
				t.Errorf("%s: pod %s is of %s %s", name, p.Name, o.Kind, o.Name)
			}
		}
	}
}

func TestCronJob(t *testing.T) {
	at := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC) // minute 29922120
	for _, tt := range []struct {
		job     string
		created time.Time
		want    string
	}{
		{"report-29922120", at, "report"},
		{"report-29922120", at.Add(-maxCronAhead), "report"},
		{"report-29922120", at.Add(-maxCronAhead - 1), ""},
		{"report-29922120", at.Add(maxCronBehind), "report"},
		{"report-29922120", at.Add(maxCronBehind + 1), ""},
		{"a-b-29922120", at, "a-b"},
		{"report-29922120x", at, ""},
		{"29922120", at, ""},
		{"-29922120", at, ""},
		{"report-09924520", at, ""},
		{"report-2992452", at, ""},
		{"report-1795240800", at, ""}, // seconds, as before 1.21
		{"report-29922120", time.Time{}, ""},
		{"seed-20261122", at, ""},
	} {
		if got, ok := cronJobName(tt.job, tt.created); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s at %v: %q, %v", tt.job, tt.created, got, ok)
		}
	}
}

func TestRuns(t *testing.T) {
	jobset := map[string]string{"jobset.sigs.k8s.io/jobset-name": "sim", "jobset.sigs.k8s.io/jobset-uid": "set"}
	for what, tt := range map[string]struct {
		pod  kubelet.Pod
		want string
	}{
		"a Job":                  {kubelet.Pod{OwnerKind: "Job", OwnerName: "a", OwnerUID: "job", Completes: true}, "job"},
		"a Job of a JobSet":      {kubelet.Pod{OwnerKind: "Job", OwnerName: "sim-w-0", OwnerUID: "job", Labels: jobset, Completes: true}, "set"},
		"a bare pod":             {kubelet.Pod{Name: "a", ReportedUID: "pod"}, "pod"},
		"a Workflow":             {kubelet.Pod{OwnerKind: "Workflow", OwnerName: "w", OwnerUID: "flow", Completes: true}, "flow"},
		"an operator's service":  {kubelet.Pod{OwnerKind: "Thing", OwnerName: "w", OwnerUID: "x"}, ""},
		"a StatefulSet":          {kubelet.Pod{OwnerKind: "StatefulSet", OwnerName: "db", OwnerUID: "x"}, ""},
		"a Deployment":           {kubelet.Pod{OwnerKind: "ReplicaSet", OwnerName: "a-1", OwnerUID: "x", Labels: map[string]string{"pod-template-hash": "1"}}, ""},
		"the launcher of an MPI": {kubelet.Pod{OwnerKind: "Job", OwnerName: "pi-launcher", OwnerUID: "x", Completes: true, Labels: map[string]string{"training.kubeflow.org/job-name": "pi"}}, ""},
	} {
		if got := runID(&tt.pod, findOwner(&tt.pod)); got != tt.want {
			t.Errorf("%s: run %q, want %q", what, got, tt.want)
		}
	}
}

func TestAccount(t *testing.T) {
	p := &kubelet.Pod{Labels: map[string]string{"team": "shop", "app": "cart"}}
	for want, labels := range map[string][]string{"shop": {"reckon/account", "team", "app"}, "cart": {"app", "team"}, "": {"x"}} {
		if got := accountLabel(p, labels); got != want {
			t.Errorf("%v: %q", labels, got)
		}
	}
}
