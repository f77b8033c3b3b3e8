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
// (KIND_NAME.json, or KIND_NAME~MORE.json). README.md there says where they come from.
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
			if o := ownerOf(p); o.Kind+"_"+o.Name != want {
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
		{"report-29922120", at.Add(-cronAhead), "report"},
		{"report-29922120", at.Add(-cronAhead - 1), ""},
		{"report-29922120", at.Add(cronBehind), "report"},
		{"report-29922120", at.Add(cronBehind + 1), ""},
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
		if got, ok := cronJob(tt.job, tt.created); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s at %v: %q, %v", tt.job, tt.created, got, ok)
		}
	}
}

func TestAccount(t *testing.T) {
	p := &kubelet.Pod{Labels: map[string]string{"team": "shop", "app": "cart"}}
	for want, labels := range map[string][]string{"shop": {"reckon/account", "team", "app"}, "cart": {"app", "team"}, "": {"x"}} {
		if got := account(p, labels); got != want {
			t.Errorf("%v: %q", labels, got)
		}
	}
}
