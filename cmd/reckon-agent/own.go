package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"

	"reckon/agent"
)

// listenOwn opens the socket to which local scripts send figures. It returns nil if the socket is unavailable and no
// flag requested it.
func (o *options) listenOwn(a *agent.Agent, log *slog.Logger) (*agent.Socket, error) {
	path := o.Socket
	if o.Replay != "" || path == "none" {
		return nil, nil
	}
	if path == "auto" {
		if path = os.Getenv("RECKON_SOCKET"); path == "" {
			ln, err := systemdSocket(os.Getpid(), os.Getenv)
			if err != nil {
				return nil, err
			}
			if ln != nil {
				return a.ListenOn(ln), nil
			}
		}
		if path = cmp.Or(path, agent.DefaultSocket(os.Getenv)); path == "" || path == "none" {
			return nil, nil
		}
	}
	s, err := a.Listen(path)
	if err != nil && o.Socket == "auto" {
		log.Info("`reckon push` does not work with this agent", "reason", err)
		return nil, nil
	}
	return s, err
}

// firstHanded is SD_LISTEN_FDS_START of sd_listen_fds(3).
const firstHanded = 3

// systemdSocket returns the socket that systemd opened for this process (reckon-agent.socket), or nil.
func systemdSocket(pid int, getenv func(string) string) (net.Listener, error) {
	if getenv("LISTEN_PID") != strconv.Itoa(pid) {
		return nil, nil
	}
	if n, err := strconv.Atoi(getenv("LISTEN_FDS")); err != nil || n != 1 {
		return nil, fmt.Errorf("systemd hands over %q sockets; reckon-agent.socket should name one", getenv("LISTEN_FDS"))
	}
	f := os.NewFile(firstHanded, "reckon-agent.socket")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the socket that systemd hands over: %w", err)
	}
	if _, ok := ln.(*net.UnixListener); !ok {
		_ = ln.Close()
		return nil, fmt.Errorf("the socket from systemd is %s: it should be a unix socket, because the kernel identifies its other end",
			ln.Addr())
	}
	return ln, nil
}
