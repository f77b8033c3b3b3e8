package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"reckon/access/peer"
)

// openAPISocket opens the Unix socket that serves the whole API to local users. The kernel identifies the user. If the
// socket cannot be opened, that is an error only if it was configured explicitly.
func (s *Server) openAPISocket() error {
	if s.config.APISocket == "" {
		return nil
	}
	ln, err := listenUnix(s.config.APISocket)
	if err != nil {
		if s.config.APISocketWanted {
			return err
		}
		s.log.Info("no Unix socket for people of this machine", "reason", err)
		return nil
	}
	s.local = ln
	if s.peers.names == nil {
		s.peers = newPeers()
	}
	s.authn.Socket = s.peers.socketPeer
	return nil
}

// listenUnix listens on a Unix socket at path that all users may connect to. It replaces the socket of a server that
// was killed. It returns an error if another server still responds there.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("the directory of the socket: %w", err)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("another server answers at %s", path)
	} else if info, no := os.Lstat(path); errors.Is(err, unix.ECONNREFUSED) && no == nil && info.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("the socket of a server that is gone: %w", err)
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s to all users: %w", path, err), ln.Close())
	}
	return ln, nil
}

// APISocket returns the path of the Unix socket of the API; empty if there is none.
func (s *Server) APISocket() string {
	if s.local == nil {
		return ""
	}
	return s.local.Addr().String()
}

// serveLocal answers on the Unix socket until ctx ends.
func (s *Server) serveLocal(ctx context.Context) error {
	h := &http.Server{Handler: s.http.Handler, ReadHeaderTimeout: s.http.ReadHeaderTimeout, ReadTimeout: s.http.ReadTimeout,
		IdleTimeout: s.http.IdleTimeout,
		ErrorLog:    s.http.ErrorLog, ConnContext: s.peers.recordPeer}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(s.local) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if h.Shutdown(stop) != nil {
		_ = h.Close() // Close the remaining connections; Shutdown has closed the listener.
	}
	<-ended
	return nil
}

// socketPeer returns the sender of a request on the Unix socket, or false for a request from the network. If the kernel
// does not identify the sender, the sender is Foreign.
func (p *peers) socketPeer(r *http.Request) (peer.Peer, bool) {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || a.Network() != "unix" {
		return peer.Peer{}, false
	}
	who, ok := p.sender(r)
	who.Foreign = who.Foreign || !ok
	return who, true
}
