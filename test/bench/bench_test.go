package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReplaceSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.md")
	for i, text := range []string{"one\n", "two\n"} {
		if err := replaceSection(path, "node", text); err != nil {
			t.Fatal(err)
		}
		if err := replaceSection(path, "other", "kept\n"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		want := "# Benchmarks\n\n<!-- node begin -->\n" + text + "<!-- node end -->\n\n<!-- other begin -->\nkept\n<!-- other end -->\n"
		if err != nil || string(got) != want {
			t.Errorf("round %d: got\n%s\nwant\n%s", i, got, want)
		}
	}
	if err := os.WriteFile(path, []byte("<!-- node begin -->"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceSection(path, "node", "x"); err == nil {
		t.Error("a section without an end was replaced")
	}
}

func TestReport(t *testing.T) {
	r := report{Date: time.Unix(0, 0), Machine: "a machine", Command: "x", Missing: []string{"y"}, Tables: []table{{Title: "T", Processes: 9, Rows: []row{
		{Name: "a", Rest: 2 * time.Millisecond, Scrape: 15 * time.Millisecond, RSS: 12_300_000, Page: 4000, Series: 50}, {Name: "b", Note: "gone"}}}}}
	for _, want := range []string{"| a | 2.00 ms/s | 15.00 ms | 0.30 % of a core | 12.3 MB | 4 kB | 50 |", "| b | not measured: gone |", "1970-01-01", "Not measured: y"} {
		if !strings.Contains(r.markdown(), want) {
			t.Errorf("no %q in\n%s", want, r.markdown())
		}
	}
}

func TestKernelFigures(t *testing.T) {
	before := cpuOf(os.Getpid())
	n := 0
	for time.Duration(n) < 5_000_000 {
		n++
	}
	if after := cpuOf(os.Getpid()); before <= 0 || after <= before {
		t.Errorf("CPU time of this process %v, then %v", before, after)
	}
	if rss, err := rssOf(os.Getpid()); err != nil || rss < 1<<20 {
		t.Errorf("%d, %v", rss, err)
	}
	if m := machine(); !strings.Contains(m, "cores of") {
		t.Errorf("%q", m)
	}
}

// The crowd is there and goes again.
func TestCrowd(t *testing.T) {
	c := newCrowd(2)
	if err := c.idle(context.Background(), 3); err != nil {
		t.Skip("no sleep here:", err)
	}
	pids, groups := []int{}, map[int]bool{}
	for _, cmd := range c.cmds {
		if g, err := syscall.Getpgid(cmd.Process.Pid); err == nil {
			groups[g] = true
		}
		pids = append(pids, cmd.Process.Pid)
		if _, err := rssOf(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
	}
	if len(groups) != 2 {
		t.Errorf("3 processes by twos are in %d groups", len(groups))
	}
	c.end()
	for _, pid := range pids {
		if _, err := rssOf(pid); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// A machine that is nearly full is left alone.
func TestNoRoom(t *testing.T) {
	if err := room(1 << 30); err == nil {
		t.Error("there was room for 2^30 processes")
	}
	if err := newCrowd(20).idle(context.Background(), 1<<30); err == nil {
		t.Error("and they were started")
	}
}

// Programs that are missing are named, and the rest goes on.
func TestWithoutPrograms(t *testing.T) {
	t.Setenv("PATH", "")
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "b.md")
	if err := run(context.Background(), []string{"-idle", "0", "-busy", "0", "-bin", t.TempDir(), "-markdown", file}, &out); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.Count(out.String(), "left out: ") != 5 || strings.Count(string(data), "Not measured: ") != 5 {
		t.Errorf("%v\n%s\n%s", err, &out, data)
	}
	if err := run(context.Background(), []string{"-idle", "x"}, &out); err == nil {
		t.Error("-idle x was taken")
	}
}
