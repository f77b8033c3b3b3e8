package run

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that are passed on. Those of job control (TSTP, TTIN, TTOU,
// CONT) are left alone: the terminal sends them to the command as well, and stops us with it.
var forwarded = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPWR,
}

// catch begins to collect signals. One that we have to ignore (nohup, a shell's
// background job) stays ignored, by us and by the command.
func catch() (ch chan os.Signal, stop func()) {
	ch = make(chan os.Signal, 32)
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	return ch, func() { signal.Stop(ch) }
}

// sentByTerminal reports whether the command has this signal already: keys such as
// Ctrl-C signal every process of the foreground group, and the command is in ours.
func sentByTerminal(s os.Signal) bool {
	if s != unix.SIGINT && s != unix.SIGQUIT {
		return false
	}
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	foreground, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}
