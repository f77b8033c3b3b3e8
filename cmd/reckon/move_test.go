package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/cmd/commandtest"
	"reckon/web/client"
)

// walkYear is a year of accounting (made for this test): alice holds whole nodes of one partition for a few cores, and everybody uses
// the other one in parts.
func walkYear(now time.Time) string {
	var b strings.Builder
	b.WriteString("JobID|JobIDRaw|User|Account|Partition|State|ExitCode|Submit|Start|End|ReqCPUS|ReqMem|AllocTRES|Timelimit|UserCPU|SystemCPU|MaxRSS|NodeList|JobName\n")
	const layout = "2006-01-02T15:04:05"
	id := 0
	job := func(user, part, node, name string, start time.Time, length, wait time.Duration, cores, used int) {
		id++
		fmt.Fprintf(&b, "%d|%d|%s|lab|%s|COMPLETED|0:0|%s|%s|%s|%d|8G|cpu=%d,mem=8G,node=1|7-00:00:00|%d:00:00|00:00:00||%s|%s\n", id, id, user, part, start.Add(-wait).Format(layout),
			start.Format(layout), start.Add(length).Format(layout), cores, cores, int(length.Hours())*used, node, name)
		fmt.Fprintf(&b, "%d.batch|%d.batch||lab||COMPLETED|0:0||%s|%s|%d||cpu=%d,mem=8G,node=1||%d:00:00|00:00:00|4194304K|%s|batch\n", id, id, start.Format(layout), start.Add(length).Format(layout),
			cores, cores, int(length.Hours())*used, node)
	}
	for day := now.AddDate(0, 0, -364).Truncate(24 * time.Hour); day.Before(now.AddDate(0, 0, -2)); day = day.AddDate(0, 0, 1) {
		job("alice", "whole", "w1", "solver", day.Add(time.Hour), 9*time.Hour, 30*time.Minute, 64, 8)
		job("bob", "whole", "w2", "full", day.Add(2*time.Hour), 12*time.Hour, 30*time.Minute, 64, 60)
		job("carol", "normal", "n1", "part", day.Add(time.Hour), 10*time.Hour, 5*time.Minute, 8, 7)
		job("dave", "normal", "n1", "rest", day.Add(time.Hour), 10*time.Hour, 5*time.Minute, 40, 36)
	}
	return b.String()
}

const walkShapes = `clusters:
  - name: fjord
    partitions:
      - {name: normal, nodes: n1, cores: 64, memory: 256G, gpus: 0, max_time: 7d}
      - {name: whole, nodes: "w[1-2]", cores: 64, memory: 256G, gpus: 0, max_time: 7d}
`

// awaitReady waits until a server answers questions.
func awaitReady(t *testing.T, address string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 2400 {
		<-tick.C
		if resp, err := http.Get("http://" + address + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatal("the server is not ready")
}

// TestMoveWalk runs the commands of the walk in the guide, in their order.
func TestMoveWalk(t *testing.T) {
	page, err := os.ReadFile("../../doc/guides/usage.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(page), "## The walk")
	walk, _, _ = strings.Cut(walk, "## What is judged")
	lines := 0
	for l := range strings.SplitSeq(walk, "\n") {
		if strings.HasPrefix(l, "    ") {
			lines++
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"year.txt": walkYear(time.Now().UTC()), "shapes.yaml": walkShapes} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	_ = port.Close()
	getenv := func(name string) string {
		return map[string]string{"RECKON_SERVER": "http://" + address, "XDG_RUNTIME_DIR": dir}[name]
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	began, log := false, &bytes.Buffer{}
	t.Cleanup(func() {
		if stop(); began {
			if <-ended; strings.Contains(log.String(), "WARN") {
				t.Errorf("the first start after an import warns: %s", log)
			}
		}
	})
	outputs := map[string]string{}
	for _, c := range commandtest.FindCommands(walk, "reckon") {
		if !c.Whole {
			continue
		}
		args := c.Words[1:]
		var out, errs bytes.Buffer
		if args[0] == "serve" { // in the background, at an address of its own, and without users
			began = true
			args = append(args, "--listen", address, "--set", "trust-loopback=true", "--set", "api-socket=")
			go func() {
				defer close(ended)
				execute(ctx, deps{stdout: &out, stderr: log, getenv: getenv}, args)
			}()
			awaitReady(t, address)
			continue
		}
		if code := execute(ctx, deps{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: getenv}, args); code != 0 {
			t.Fatalf("%s: exit %d: %s%s", c.Text, code, out.String(), errs.String())
		}
		outputs[strings.Join(args, " ")] = out.String()
	}
	if lines > 15 || lines < 8 || len(outputs) < 8 {
		t.Errorf("%d lines in the walk, %d commands run", lines, len(outputs))
	}
	var list client.MoveList
	if err := json.Unmarshal([]byte(outputs["move --since 365d --format json"]), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Moves) != 1 || list.Moves[0].Owner != "alice" || list.Moves[0].Rule != "small" || list.Moves[0].To != "normal" || list.Moves[0].From != "whole" ||
		list.Moves[0].WaitThere == nil || *list.Moves[0].WaitThere != 300 || *list.Moves[0].WaitHere != 1800 || len(list.Moves[0].Jobs) != 5 {
		t.Errorf("%+v", list)
	}
	for command, want := range map[string]string{
		"usage --by owner --since 365d": "alice", "usage --by partition --since 365d": "whole", "move --since 365d": "small",
		"move --since 365d --owner alice -o text": "Your jobs named solver used", "move --since 365d --owner alice": "normal",
	} {
		if !strings.Contains(outputs[command], want) {
			t.Errorf("%s: %q lacks %q", command, outputs[command], want)
		}
	}
	if page, err := os.ReadFile("report.html"); err != nil || !strings.Contains(string(page), "core-hours allocated were used") {
		t.Errorf("a report without the cores of the year: %v", err)
	}
	var out, errs bytes.Buffer
	code := execute(ctx, deps{stdout: &out, stderr: &errs, getenv: getenv}, strings.Fields("move --since 365d --owner bob -o text"))
	if code != 0 || out.Len() > 0 || !strings.Contains(errs.String(), "no work should move") {
		t.Errorf("a paragraph for who has nothing to move: exit %d %q %q", code, out.String(), errs.String())
	}
}
