package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// StartError reports that the command could not be started. Code is the exit code that a shell
// uses: 127 if it was not found, 126 if it is not executable.
type StartError struct {
	Code int
	Err  error
}

// Error names the command and the reason.
func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// findProgram finds the program as execvp(3) does.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &StartError{127, fmt.Errorf("%s: command not found", name)}
	default:
		var why *exec.Error
		if errors.As(err, &why) {
			err = why.Err
		}
		return "", &StartError{126, fmt.Errorf("%s: cannot be run: %w", name, err)}
	}
}

// forkResult is the result of a fork.
type forkResult struct {
	pid   int
	err   error
	begin time.Time
	// settled is closed when our thread has left the group again.
	settled chan struct{}
}

// forkCommand forks the command from a locked thread, with inherited perf events and in the private group
// if available. It returns the process id.
func forkCommand(o *Options, path string, g *privateGroup, perf func()) (forkResult, error) {
	out := make(chan forkResult, 1)
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		// Never unlocked: the thread ends with the goroutine, and with it all it was given.
		runtime.LockOSThread()
		perf()
		attr := &syscall.ProcAttr{
			Env:   os.Environ(),
			Files: []uintptr{o.Stdin.Fd(), o.Stdout.Fd(), o.Stderr.Fd()},
			Sys:   &syscall.SysProcAttr{},
		}
		leave := g.prepareFork(attr.Sys)
		defer leave() // takes milliseconds with version 1, while the command runs already
		begin := time.Now()
		pid, err := syscall.ForkExec(path, o.Args, attr)
		if err != nil && attr.Sys.UseCgroupFD && !errors.Is(err, unix.ENOENT) {
			// A kernel before 5.7, or a filter of system calls, has no CLONE_INTO_CGROUP.
			attr.Sys.UseCgroupFD = false
			if pid, err = syscall.ForkExec(path, o.Args, attr); err == nil {
				g.dropV2()
			}
		}
		if errors.Is(err, unix.ENOEXEC) { // a script without #!, as execvp(3) does
			pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", path}, o.Args[1:]...), attr)
		}
		out <- forkResult{pid, err, begin, settled}
	}()
	f := <-out
	err := f.err
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist):
		return f, &StartError{127, fmt.Errorf("%s: its interpreter, or the file itself, is not there: %w", path, err)}
	default:
		return f, &StartError{126, fmt.Errorf("%s: cannot be run: %w", path, err)}
	}
}
