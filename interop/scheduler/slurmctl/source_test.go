package slurmctl

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bin creates a folder of commands that print a file, or fail.
func bin(t *testing.T, commands map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range commands {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandsWithJSON(t *testing.T) {
	t.Setenv("SQUEUE_FORMAT", "%i")
	t.Setenv("SLURM_TIME_FORMAT", "relative")
	bin(t, map[string]string{
		"squeue": `test -z "$SQUEUE_FORMAT" || exit 3; test "$SLURM_TIME_FORMAT" = %s || exit 4; exec zcat ` + testdata(t, "squeue-22.05.json.gz"),
		"sacct":  `case "$*" in *-V*) echo slurm 24.05.1; exit;; esac; exec zcat ` + testdata(t, "sacct-22.05.json.gz"),
	})
	c := &Commands{}
	jobs, _, err := c.Jobs(t.Context())
	if err != nil || len(jobs) != 7 {
		t.Errorf("%v, %d jobs", err, len(jobs))
	}
	jobs, _, err = c.Ended(t.Context(), time.Now().Add(-time.Hour), time.Now())
	if err != nil || len(jobs) != 11 {
		t.Errorf("%v, %d jobs", err, len(jobs))
	}
}

// TestCommandsWithText: a release without JSON is queried for text, and not for JSON again.
func TestCommandsWithText(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	text := func(file string) string {
		return `echo "$*" >>` + log + `; case "$*" in *--json*) echo "squeue: unrecognized option '--json'" >&2; exit 1;; esac
mark=$(printf '%s' "$*" | sed -n "s/.*\(\x1f[A-Z0-9]*\x1f\).*/\1/p" | head -1); sed "s/\x1fMARK\x1f/$mark/g" ` + testdata(t, file)
	}
	bin(t, map[string]string{
		"squeue": text("squeue-22.05.txt"), "sinfo": text("sinfo-22.05.txt"), "scontrol": text("sinfo-22.05.txt"),
		"sacct": `case "$*" in *-V*) echo slurm-wlm 22.05.8; exit;; *"-s "*) echo "sacct: error: Unrecognized job state value" >&2; exit 1;; esac; ` + text("sacct-22.05.txt"),
	})
	c := &Commands{}
	for range 2 {
		jobs, _, err := c.Jobs(t.Context())
		if err != nil || len(jobs) < 7 {
			t.Errorf("%v, %d jobs", err, len(jobs))
		}
	}
	jobs, _, err := c.Ended(t.Context(), time.Now().Add(-time.Hour), time.Now())
	if err != nil || lines(jobs) != accounts2205 {
		t.Errorf("%v\n%s", err, lines(jobs))
	}
	nodes, parts, _, err := c.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || len(parts) != 2 {
		t.Errorf("%v, %v, %v", err, nodes, parts)
	}
	raw, _ := os.ReadFile(log)
	if n := strings.Count(string(raw), "-t all --json"); n != 1 {
		t.Errorf("squeue was asked for JSON %d times", n)
	}
}

func TestCommandsThatFail(t *testing.T) {
	bin(t, map[string]string{"squeue": `echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1`})
	c := &Commands{}
	_, _, err := c.Jobs(t.Context())
	if err == nil || !strings.Contains(err.Error(), "squeue: slurm_load_jobs error: Unable to contact") {
		t.Errorf("%v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "slurm-url") {
		t.Errorf("without the commands: %v", err)
	}
}

// restd responds like slurmrestd: it requires a token and lists its versions.
func restd(t *testing.T, paths *[]string) *httptest.Server {
	t.Helper()
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*paths = append(*paths, r.URL.Path)
		if r.Header.Get("X-SLURM-USER-TOKEN") == "" || r.Header.Get("X-SLURM-USER-NAME") != "alice" {
			http.Error(w, "Authentication failure", http.StatusUnauthorized)
			return
		}
		answer := map[string]string{
			"/slurm/v0.0.38/jobs": "squeue-22.05.json.gz", "/slurmdb/v0.0.38/jobs": "sacct-22.05.json.gz", "/slurmdb/v0.0.38/job/5": "sacct-22.05.json.gz",
			"/slurm/v0.0.38/nodes": "sinfo-22.05.json",
		}[r.URL.Path]
		switch {
		case r.URL.Path == "/openapi/v3":
			_, _ = io.WriteString(w, `{"paths":{"\/slurm\/v0.0.37\/jobs":{},"\/slurm\/v0.0.38\/jobs":{},"\/slurm\/v0.0.36\/ping":{}}}`)
		case r.URL.Path == "/slurm/v0.0.38/partitions":
			_, _ = io.WriteString(w, `{"partitions":[{"name":"p","partition":{"state":["UP"]},"maximums":{"time":{"set":true,"infinite":false,"number":60}},"flags":["default"]}],"errors":[]}`)
		case answer == "":
			http.NotFound(w, r)
		default:
			_, _ = io.Copy(w, recorded(t, answer))
		}
	}))
}

func TestRest(t *testing.T) {
	var paths []string
	srv := restd(t, &paths)
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "token")
	token := "h." + base64.RawURLEncoding.EncodeToString([]byte(`{"sun":"alice","exp":1}`)) + ".s"
	s, err := NewRest(srv.URL, file)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Jobs(t.Context()); err == nil || !strings.Contains(err.Error(), "token for slurmrestd") {
		t.Errorf("without the file: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("stale.token.x\n")
	if _, _, err := s.Jobs(t.Context()); err == nil || !strings.Contains(err.Error(), "scontrol token") {
		t.Errorf("with a token that is not taken: %v", err)
	}
	write("SLURM_JWT=" + token + "\n") // renewed, without a restart
	jobs, _, err := s.Jobs(t.Context())
	if err != nil || lines(jobs) != queued2205 {
		t.Errorf("%v\n%s", err, lines(jobs))
	}
	jobs, _, err = s.Ended(t.Context(), time.Unix(1795240000, 0), time.Unix(1795250000, 0))
	if err != nil || len(jobs) != 11 {
		t.Errorf("%v, %d jobs", err, len(jobs))
	}
	if jobs, _, err = s.ByNumber(t.Context(), []uint64{5}, time.Unix(1795243000, 0)); err != nil || len(jobs) != 3 {
		t.Errorf("%v, %d jobs handed in since", err, len(jobs))
	}
	nodes, parts, _, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || len(parts) != 1 || !parts[0].Default || parts[0].Seconds != 3600 || parts[0].State != "up" {
		t.Errorf("%v, %v, %v", err, nodes, parts)
	}
	for _, bad := range []string{"", "slurm.example.org", "ftp://x", "http://", "http://[::1"} {
		if _, err := NewRest(bad, ""); err == nil {
			t.Errorf("address %q was taken", bad)
		}
	}
}
