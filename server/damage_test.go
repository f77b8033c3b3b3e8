package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/web/client"
)

// withBlock runs a server for a moment, leaves a block in its directory, and returns the path
// of that block's index.
func withBlock(t *testing.T, data string) (index string) {
	t.Helper()
	s, stop := start(t, data)
	if err := s.samples.(interface{ Snapshot(string, bool) error }).Snapshot(filepath.Join(data, "copy"), true); err != nil {
		t.Fatal(err)
	}
	stop()
	blocks, err := filepath.Glob(filepath.Join(data, "copy", "01*"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("no blocks: %v", err)
	}
	if err := os.Rename(blocks[0], filepath.Join(data, "series", filepath.Base(blocks[0]))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(data, "series", filepath.Base(blocks[0]), "index")
}

// The index of a block is overwritten while the server has it open: lists go on being answered,
// and PromQL after a moment, with the gaps.
func TestIndexDamagedWhileRunning(t *testing.T) {
	data := t.TempDir()
	index := withBlock(t, data)
	s, _ := start(t, data)
	raw, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for at := len(raw) / 2; at < len(raw); at++ { // the postings, and what leads to them
		raw[at] ^= 1
	}
	f, err := os.OpenFile(index, os.O_WRONLY, 0) // the same file, which is mapped
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(raw); err != nil {
		t.Fatal(err)
	}
	f.Close()
	want := filepath.Join(filepath.Base(filepath.Dir(index)), "index")
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if code, body := get(t, s, "/api/reckon/v1/workloads"); code != http.StatusOK {
			t.Fatalf("the list of workloads: %d %s", code, body)
		}
		code, body := get(t, s, "/api/v1/query?query=count(reckon_workload_info)")
		if code == http.StatusOK && strings.Contains(body, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("PromQL: %d %s", code, body)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// One flipped bit in the index of a block: the server answers, and reports which samples are
// missing.
func TestDamagedIndexIsLeftOut(t *testing.T) {
	data := t.TempDir()
	index := withBlock(t, data)
	raw, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	at := len(raw) / 2
	for raw[at] == 0 { // not in the space between two parts
		at++
	}
	raw[at] ^= 1
	if err := os.WriteFile(index, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, data)
	want := filepath.Join(filepath.Base(filepath.Dir(index)), "index")
	if code, body := get(t, s, "/api/v1/query?query=count(reckon_workload_info)"); code != http.StatusOK || !strings.Contains(body, "warnings") || !strings.Contains(body, want) {
		t.Errorf("PromQL: %d %s", code, body)
	}
	c, err := client.New("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Workload(t.Context(), "other/n1", client.Range{})
	if err != nil || len(d.Missing) != 1 || !strings.Contains(d.Missing[0], want) || len(d.Profile) == 0 {
		t.Errorf("%d curves, missing %q, %v", len(d.Profile), d.Missing, err)
	}
	u, err := c.Usage(t.Context(), client.UsageQuery{Since: time.Now().Add(-time.Hour), Until: time.Now()})
	if err != nil || len(u.Missing) != 1 || !strings.Contains(u.Missing[0], want) {
		t.Errorf("usage: missing %q, %v", u.Missing, err)
	}
}
