package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/interop/scheduler"
	"reckon/interop/scheduler/all"
	"reckon/metric"
	"reckon/test/pipeline"
	"reckon/web/client"
)

// TestFlux follows recorded jobs of Flux (interop/scheduler/flux/testdata) from its command to the answers: one runs on a node
// with an agent and is cancelled, two wait.
func TestFlux(t *testing.T) {
	dir := t.TempDir()
	answers, err := filepath.Abs("../../interop/scheduler/flux/testdata")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *inactive*) cat %s/inactive ;; resource*) cat %s/resources.txt ;; *) cat %s/queue ;; esac\n", dir, answers, dir)
	for name, text := range map[string]string{"flux": script, "inactive": "", "queue": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	copied := func(from, to string, change func(string) string) {
		text, err := os.ReadFile(filepath.Join(answers, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), []byte(change(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	source, err := all.Open("flux", scheduler.Access{})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.UnixMilli(1791485339380).UTC()
	s := pipeline.Empty(t, begin.Add(-time.Minute).Truncate(export))
	poller := scheduler.NewPoller(source, scheduler.Options{Clock: func() time.Time { return s.Now },
		Write: func(_ context.Context, b *metric.Batch) error { return s.Append("", b) }})
	run := []slurmRun{{raw: "x", owner: "fluxuser", start: begin, end: begin.Add(18 * time.Second)}}
	for end := begin.Add(10 * time.Minute); s.Now.Before(end); s.Now = s.Now.Add(export) {
		switch {
		case s.Now.After(begin.Add(20 * time.Second)):
			copied("running.json", "queue", func(text string) string { // without the first
				_, waiting, _ := strings.Cut(text, "local-0\"}, ")
				return `{"jobs": [` + waiting
			})
			copied("ended.json", "inactive", func(text string) string { return text })
		case s.Now.After(begin):
			copied("running.json", "queue", func(text string) string { return text })
		}
		measureAs(t, s, run, "flux/fiFkbMhFM", "flux")
		poller.Step(t.Context())
		s.Advance()
	}
	rows := map[string]client.Workload{}
	for _, w := range s.Workloads(client.Filter{Kinds: []string{"flux"}}) {
		rows[w.ID] = w
	}
	w := rows["flux/fiFkbMhFM"]
	if w.State != "cancelled" || w.Name != "sleep" || w.Owner != "fluxuser" || w.EndedBy != "user" || w.ExitCode == nil || *w.ExitCode != 143 ||
		w.AllocatedCores == nil || *w.AllocatedCores != 10 || w.CPUSeconds == nil || w.End.Unix() != 1791485358 || w.Start.Unix() != begin.Unix() {
		t.Errorf("the job that ran: %+v", w)
	}
	for id, reason := range map[string]string{"flux/fiFsPiQD5": "JobHeldUser", "flux/fiHP9Htes": "Resources"} {
		if w := rows[id]; w.State != "pending" || w.Reason != reason || w.Owner != "fluxuser" {
			t.Errorf("%s waits: %+v", id, w)
		}
	}
	if d := s.Detail(w); len(d.Parts) != 1 || d.Parts[0].Node != "n1" {
		t.Errorf("parts %+v", d.Parts)
	}
}
