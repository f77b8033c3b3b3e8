package measure

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"
)

// Process is a program that listens at an address.
type Process struct {
	Name  string
	Path  string
	Args  func(addr string) []string
	Ready string                        // path of a page that is there when the program is ready
	Is    func(page []byte) bool        // reports it of the page; nil is any page
	Addr  string                        // is chosen by the first start
	stop  func() (stderr *bytes.Buffer) // nil while it does not run
	pid   int
}

// CheckInstalled returns why the program is not installed, or nil if it is.
func (p *Process) CheckInstalled() error {
	path, err := exec.LookPath(p.Path)
	if err == nil {
		p.Path = path
	}
	return err
}

// Start starts the program at a free port, or at its previous one, and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	if p.Addr == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		p.Addr = l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
	}
	var stderr bytes.Buffer
	cmd := exec.Command(p.Path, p.Args(p.Addr)...)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	p.pid = cmd.Process.Pid
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait(); close(exited) }()
	p.stop = func() *bytes.Buffer {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-exited:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill() // likewise
			<-exited
		}
		return &stderr
	}
	deadline := time.After(2 * time.Minute)
	for {
		page, err := Get(ctx, "http://"+p.Addr+p.Ready, nil)
		if err == nil && (p.Is == nil || p.Is(page)) {
			return nil
		}
		select {
		case err := <-exited:
			return fmt.Errorf("%s ended at once: %v %s", p.Name, err, FirstLine(p.Stop()))
		case <-deadline:
			return fmt.Errorf("%s is not ready after two minutes: %v %s", p.Name, err, FirstLine(p.Stop()))
		case <-ctx.Done():
			p.Stop()
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Stop terminates the program, gracefully at first, and returns its standard error.
func (p *Process) Stop() []byte {
	if p.stop == nil {
		return nil
	}
	stderr := p.stop()
	p.stop = nil
	return stderr.Bytes()
}

// PID returns the process id of the program.
func (p *Process) PID() int { return p.pid }

// CPU returns the processor time of the running program.
func (p *Process) CPU() time.Duration { return CPUOf(p.pid) }
