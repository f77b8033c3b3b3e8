package run

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// forwardedSignals lists the signals that are passed on to the command. It excludes job control signals (TSTP, TTIN, TTOU,
// CONT), because the terminal also sends them to the command and stops us with it.
var forwardedSignals = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPWR,
}

// catchSignals starts to receive the forwarded signals on ch; call stop to end it. Signals that were ignored at the
// start (nohup, a shell's background job) stay ignored, both by us and by the command.
func catchSignals() (ch chan os.Signal, stop func()) {
	ch = make(chan os.Signal, 32)
	for _, s := range forwardedSignals {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	return ch, func() { signal.Stop(ch) }
}

// sentByTerminal reports whether the terminal also sent this signal to the command. Keys such as Ctrl-C signal the
// whole foreground process group, which includes the command.
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
