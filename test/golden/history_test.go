package golden

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
)

func decodeBody(t *testing.T, resp *http.Response) (v map[string]any) {
	t.Helper()
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// checkHistory asks about a data directory of imports alone, which nobody signs in to.
func (s *site) checkHistory(name string) {
	s.t.Helper()
	check(s.t, name+"-jobs", s.ask("jobs", "--since", "2000-01-01", "--sort", "start", "--format", "json"))
	check(s.t, name+"-usage", s.ask("usage", "--by", "site,owner", "--per", "month", "--since", "2020-01-01", "--until", "2026-11-01", "--format", "json"))
}

// TestBackup restores a backup of an earlier program; the imports in it are known.
func TestBackup(t *testing.T) {
	dir, _ := unpack(t)
	data := filepath.Join(dir, "history")
	offline(t, dir, "restore", "history.tar.zst", "--check")
	offline(t, dir, "restore", "history.tar.zst", "--data", data)
	s := serve(t, dir, data)
	defer s.stop()
	s.token = "" // nobody signs in here
	s.checkHistory("backup")
	n := 0
	for _, args := range imports(t, dir) {
		if !slices.Contains(args, "fox") && !slices.Contains(args, "uio") {
			continue // it is not in the backup
		}
		n++
		if r := decode[imported](t, s.ask(append(args, "--format", "json")...)); r.Taken != 0 || r.Samples != 0 || r.Known == 0 {
			t.Errorf("%v a second time: %+v", args, r)
		}
	}
	if n != 2 {
		t.Errorf("%d imports were done again, want 2", n)
	}
}

// TestCutOff finishes an import that the earlier program was killed in.
func TestCutOff(t *testing.T) {
	dir, _ := unpack(t)
	data := filepath.Join(dir, "cut")
	again := []string{"import", "sacct", "--zone", "UTC", "--site", "lab", "--data", data, "--format", "json", "imports/sacct-22.05.txt"}
	if r := decode[imported](t, offline(t, dir, again...)); !r.Resumed {
		t.Errorf("the import that was cut off is not gone on with: %+v", r)
	}
	if r := decode[imported](t, offline(t, dir, again...)); r.Resumed || r.Taken != 0 || r.Samples != 0 {
		t.Errorf("again: %+v", r)
	}
	s := serve(t, dir, data)
	defer s.stop()
	s.token = "" // nobody signs in here
	s.checkHistory("cut")
}

// TestGrown imports a file after the earlier program had a part of it.
func TestGrown(t *testing.T) {
	dir, _ := unpack(t)
	s := serve(t, dir, filepath.Join(dir, "site"))
	defer s.stop()
	out := s.ask("import", "sonar", "--batch", "--site", "grown", "--format", "json", "imports/grown.csv")
	if r := decode[imported](t, out); r.Taken == 0 || r.Known == 0 {
		t.Errorf("part of it is known and part is new: %+v", r)
	}
	check(t, "grown-import", out)
	check(t, "grown-jobs", s.ask("jobs", "--since", "2000-01-01", "--site", "grown", "--sort", "start", "--format", "json"))
}
