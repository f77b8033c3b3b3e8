package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"reckon/server"
	"reckon/web/client"
)

// accounts is an export of sacct of n jobs of two minutes, one a minute.
func accounts(n int) string {
	var b strings.Builder
	b.WriteString("JobID|Cluster|User|State|ExitCode|Submit|Start|End|ElapsedRaw|NCPUS|AllocTRES|UserCPU|NodeList\n")
	begin := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		at := begin.Add(time.Duration(i) * time.Minute)
		fmt.Fprintf(&b, "%d|big|u%d|COMPLETED|0:0|%s|%[3]s|%s|120|2|cpu=2,mem=1G,node=1|00:01:30|n1\n", i+1, i%5, at.Format("2006-01-02T15:04:05"),
			at.Add(2*time.Minute).Format("2006-01-02T15:04:05"))
	}
	return b.String()
}

// TestImportInterrupted: Ctrl-C or SIGTERM during an import into a running server ends the command at once, with the status of the signal.
// The server goes on, nothing is half counted, and the same input again completes it.
func TestImportInterrupted(t *testing.T) {
	const jobs = 10_000
	text := accounts(jobs)
	reckon := filepath.Join(t.TempDir(), "reckon") // by this name the test binary is the program
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, reckon)
	}
	if err != nil {
		t.Fatal(err)
	}
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			s, err := server.Open(t.Context(), server.Config{Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "d"), Receive: true})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			defer func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			cmd := exec.CommandContext(t.Context(), reckon, "import", "sacct", "--zone", "UTC", "--server", "http://"+s.Addr(), "-")
			cmd.Env = append(os.Environ(), "RECKON_TEST_MAIN=1")
			var printed bytes.Buffer
			cmd.Stdout, cmd.Stderr = &printed, &printed
			in, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(in, text[:len(text)*3/4]); err != nil { // and the rest does not come
				t.Fatal(err)
			}
			begin := time.Now()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			took := time.Since(begin)
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != want || took > 10*time.Second ||
				!strings.Contains(printed.String(), "interrupted: the server finishes what it was sent") {
				t.Errorf("%v after %s: %s", err, took, &printed)
			}
			c, err := client.New("http://" + s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Import(t.Context(), client.ImportOptions{Format: "sacct", Zone: "UTC"}, []client.ImportFile{{Name: "all", Open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(text)), nil
			}}})
			if err != nil || r.Records != jobs || r.Taken+r.Known != jobs || r.Taken < jobs/5 {
				t.Fatalf("%+v %v", r, err)
			}
			list, err := c.Workloads(t.Context(), client.Filter{Limit: 1})
			if err != nil || list.Total != jobs {
				t.Errorf("%d jobs, %v", list.Total, err)
			}
			use, err := c.Usage(t.Context(), client.UsageQuery{Since: time.Date(2025, 2, 28, 0, 0, 0, 0, time.UTC), Until: time.Date(2025, 4, 1, 0, 0, 0, 0, time.UTC), Span: "whole", By: []string{"site"}})
			if err != nil || len(use.Rows) != 1 || use.Rows[0].CPUSeconds == nil || *use.Rows[0].CPUSeconds != 90*jobs || *use.Rows[0].HeldCoreSeconds != 240*jobs ||
				*use.Rows[0].Started != jobs {
				t.Errorf("%+v %v", use, err)
			}
			t.Logf("ended %s after the signal; %d jobs had been taken", took, r.Known)
		})
	}
}
