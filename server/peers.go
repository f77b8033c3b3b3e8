package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"reckon/access/peer"
	unixusers "reckon/workload/users"
)

// peers determines the Unix user at the other end of a connection.
type peers struct{ names *unixusers.Table }

func newPeers() peers { return peers{unixusers.New("/")} }

type peerKey struct{}

// recordPeer identifies the user of a new connection and adds the user to ctx. It does so when the connection is
// accepted, because later the other process may be gone and its port reused.
func (p *peers) recordPeer(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	uid, err := peer.UID(c)
	if err != nil {
		return ctx // the user is unknown
	}
	if u, ok := c.(*net.UnixConn); ok && uid == 0 && !peer.Home(u) {
		return context.WithValue(ctx, peerKey{}, peer.Peer{Foreign: true})
	}
	p.names.Name(uid) // looked up in the background if the machine queries a directory
	return context.WithValue(ctx, peerKey{}, peer.Peer{UID: uid})
}

// sender returns the sender of a request.
func (p *peers) sender(r *http.Request) (peer.Peer, bool) {
	who, ok := r.Context().Value(peerKey{}).(peer.Peer)
	if ok && !who.Foreign { // a directory that answers late finds the sender by number
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		who.Name = p.names.Wait(ctx, who.UID)
		cancel()
	}
	return who, ok
}
