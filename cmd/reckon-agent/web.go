package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"reckon/cmd/settings"
	"reckon/internal/webconfig"
)

// webOptions define who may read /metrics.
type webOptions struct {
	config   string
	insecure bool
}

func (o *webOptions) register(s *settings.Set) {
	s.Flags.StringVar(&o.config, "web-config", "",
		"file with TLS certificates and users of /metrics, in the form of Prometheus's web configuration; read again while the agent runs")
	s.Flags.BoolVar(&o.insecure, "insecure", false, "let everybody who reaches the address read /metrics")
}

// door is the listener for /metrics.
type door struct {
	net.Listener
	config *webconfig.Config // nil: plain HTTP without authentication
	local  bool              // no password is required, and only this machine can connect
}

func (o *webOptions) open(listen string, log *slog.Logger) (*door, error) {
	var d door
	var err error
	if o.config != "" {
		if d.config, err = webconfig.Open(o.config, log); err != nil {
			return nil, fmt.Errorf("--web-config: %w", err)
		}
	}
	if d.Listener, err = net.Listen("tcp", listen); err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", listen, err)
	}
	addr, _ := d.Addr().(*net.TCPAddr)
	open := d.config == nil || !d.config.Closed()
	d.local = open && !o.insecure
	if d.local && (addr == nil || !addr.IP.IsLoopback()) {
		at := d.Addr()
		_ = d.Close()
		return nil, fmt.Errorf(
			"others reach the address %s, and what users run could be read without a password: name users or client certificates in "+
				"--web-config, push instead (--push URL), or let everybody read with --insecure", at)
	}
	if d.config != nil {
		d.Listener = d.config.Listener(d.Listener)
	}
	return &d, nil
}

func (d *door) address() string {
	if d.config != nil && d.config.TLS() {
		return "https://" + d.Addr().String()
	}
	return "http://" + d.Addr().String()
}

func (d *door) handler(h http.Handler) http.Handler {
	if d.local {
		h = localOnly(h)
	}
	if d.config == nil {
		return h
	}
	return d.config.Handler(h)
}

// localOnly rejects requests for host names other than this machine's loopback names.
func localOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !webconfig.LocalHost(r.Host) {
			http.Error(
				w, fmt.Sprintf(
					"this agent answers this machine only, not for the name %.100q; ask for http://localhost or http://127.0.0.1, or "+
						"start it with --insecure", r.Host), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
