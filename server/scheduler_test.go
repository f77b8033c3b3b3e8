package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/interop/scheduler"
	"reckon/web/client"
)

// TestSlurm runs a server over commands that answer as Slurm's do: a job that
// waits, one that runs, and one that ended, are in the list as soon as they were reported.
func TestSlurm(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().Unix()
	queue := fmt.Sprintf(`{"jobs":[
{"job_id":1,"user_name":"alice","name":"w","partition":"p","account":"a","job_state":"PENDING","state_reason":"Priority","submit_time":%d,"tres_req_str":"cpu=8,mem=1G,node=2"},
{"job_id":2,"user_name":"bob","name":"r","partition":"p","job_state":["RUNNING"],"submit_time":%d,"start_time":%d,"end_time":%d,"nodes":"n[1-2]"},
{"job_id":3,"user_name":"bob","name":"f","partition":"p","job_state":"FAILED","submit_time":%d,"start_time":%d,"end_time":%d,"exit_code":768}],"errors":[]}`,
		now-100, now-90, now-80, now+1000, now-90, now-80, now-40)
	for name, script := range map[string]string{
		"squeue": "cat " + filepath.Join(dir, "queue"), "sacct": `echo '{"jobs":[],"errors":[]}'`,
		"sinfo": "exit 1", "scontrol": "exit 1", "queue": "",
	} {
		text := "#!/bin/sh\n" + script + "\n"
		if name == "queue" {
			text = queue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	s, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Site: "lab", Receive: true, Scheduler: &Scheduler{System: "slurm"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-s.First():
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing in the catalogue after 2 minutes")
	}
	c, err := client.New("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		filter client.Filter
		want   string
	}{
		{client.Filter{States: []string{"pending"}}, "slurm/1 alice waits Priority cores 8 wall 0"},
		{client.Filter{Nodes: []string{"n2"}}, "slurm/2 bob runs"},
		{client.Filter{States: []string{"failed"}}, "slurm/3 bob ended exit 3 wall 40"},
	} {
		// The first round of the catalogue may come between two batches.
		got := ""
		give := time.After(2 * time.Minute)
		for tick := time.NewTicker(50 * time.Millisecond); got != tt.want; {
			list, err := c.Workloads(t.Context(), tt.filter)
			if got = fmt.Sprint(len(list.Workloads), err); len(list.Workloads) == 1 {
				got = told(&list.Workloads[0])
			}
			select {
			case <-tick.C:
				continue
			case <-give:
			}
			tick.Stop()
			t.Errorf("%+v: got %s, want %s", tt.filter, got, tt.want)
			break
		}
	}
}

func told(w *client.Workload) string {
	s := w.ID + " " + w.Owner
	switch {
	case w.Running:
		s += " runs"
	case w.End == nil:
		s += " waits " + w.Reason
	default:
		s += " ended"
	}
	if w.RequestCores != nil {
		s += fmt.Sprintf(" cores %g", *w.RequestCores)
	}
	if w.ExitCode != nil {
		s += fmt.Sprintf(" exit %d", *w.ExitCode)
	}
	if !w.Running {
		s += fmt.Sprintf(" wall %g", w.WallSeconds)
	}
	return s
}

func TestSlurmThatIsNotThere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, tt := range []struct {
		access scheduler.Access
		want   string
	}{{scheduler.Access{}, "slurm-url"}, {scheduler.Access{URL: "controller:6820"}, "http://HOST:PORT"}} {
		_, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Scheduler: &Scheduler{System: "slurm", Access: tt.access}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.access, err)
		}
	}
}
