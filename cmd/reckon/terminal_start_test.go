package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deafTerminal runs a command on a terminal that answers no question, with a line typed ahead,
// and returns what the command wrote and how long it took.
func deafTerminal(t *testing.T, typed string, args ...string) (string, time.Duration) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = master.Close() }()
	var number int
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		failed = errors.Join(failed, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
	})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := master.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "reckon", args...) // this test binary, under the name that TestMain gave it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "RECKON_SERVER=http://127.0.0.1:1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = out.ReadFrom(master) // ends with an error once the last process has closed the terminal
	}()
	if err := cmd.Wait(); ctx.Err() != nil {
		t.Errorf("reckon %v did not end: %v", args, err)
	}
	took := time.Since(start)
	<-read
	return out.String(), took
}

// TestTerminalIsNotQueried starts every command on a terminal that answers nothing: none asks it
// for its colours or its cursor, and what was typed ahead stays for the command that `reckon run` starts.
func TestTerminalIsNotQueried(t *testing.T) {
	check := func(args ...string) {
		out, took := deafTerminal(t, "", args...)
		for _, query := range []string{"\x1b]10;", "\x1b]11;", "\x1b[6n", "\x1b[c"} {
			if bytes.Contains([]byte(out), []byte(query)) {
				t.Errorf("reckon %v writes the query %q to its terminal", args, query)
			}
		}
		if took > 4*time.Second && len(args) == 1 { // 5 s is how long an answer would be waited for
			t.Errorf("reckon %v took %v", args, took)
		}
	}
	check("version")
	check("run", "--exits", "none", "-o", "/dev/null", "--", "true")
	for _, cmd := range newTree(deps{getenv: func(string) string { return "" }}, "").Commands() {
		check(cmd.Name(), "--help")
	}
	for _, name := range []string{"jobs", "nodes", "usage", "findings", "top"} {
		check(name)
	}
	out, _ := deafTerminal(t, "typed ahead\n", "run", "--exits", "none", "-o", "/dev/null", "--", "head", "-1")
	if n := bytes.Count([]byte(out), []byte("typed ahead")); n != 2 { // the echo, and the output of head
		t.Errorf("head -1 did not get its line: %q", out)
	}
}
