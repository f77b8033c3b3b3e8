package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"reckon/access"
	"reckon/access/peer"
	"reckon/internal/webconfig"
)

// Authenticator identifies the sender of a request and handles sign-in and sign-out.
type Authenticator struct {
	Users *Users
	// Public shows public information to viewers who are not signed in.
	Public bool
	// OIDC signs people in by an OpenID Connect provider; nil: by password only.
	OIDC *Provider
	// Cluster accepts service accounts of a Kubernetes cluster; nil: none.
	Cluster *Cluster
	// Basic means that the web configuration has users (name and bcrypt hash). They are checked
	// before a request arrives here and are admin.
	Basic bool
	// Proxies are the addresses of trusted reverse proxies. For a request from one, the
	// client's address is taken from X-Forwarded-For, and its scheme from X-Forwarded-Proto.
	Proxies []netip.Prefix
	// Peer returns the Unix user behind a local request without credentials. nil disables the lookup.
	Peer func(*http.Request) (peer.Peer, bool)
	// Socket returns the Unix user behind a request through this server's Unix socket, or false for
	// a request from the network. nil means that there is no socket.
	Socket func(*http.Request) (peer.Peer, bool)
	// Insecure makes every sender without credentials admin. Local does so while there are no
	// users, because only this machine can reach the address.
	Insecure, Local bool
	Logger          *slog.Logger

	mu       sync.Mutex
	checked  time.Time // when hasUsers was read
	hasUsers bool
	refusals refusals
	noted    map[string]time.Time // accesses in the audit log, by viewer, action and object
}

const cookieName = "reckon_session"

// Viewer returns the viewer who sent a request, or an [access.Refusal] as the error. A request from within this process
// carries its viewer in the context.
func (a *Authenticator) Viewer(r *http.Request) (access.Viewer, error) {
	if v := access.From(r.Context()); v.Role > access.Nobody {
		return v, nil
	}
	if r.Header.Get("Authorization") == "" {
		if p, ok := a.socketPeer(r); ok {
			return a.socketViewer(r.Context(), p)
		}
	}
	v, err := a.credentialViewer(r)
	if err != nil || v.Role > access.Public || v.Writes != nil {
		return v, err
	}
	open, err := a.adminWithoutLogin(r.Context())
	if err != nil || !open {
		return v, err
	}
	if a.Local && !a.Insecure {
		// A page on the internet can point its name at 127.0.0.1 and then send requests here (DNS rebinding).
		if err := checkLocalName(r.Host); err != nil {
			return access.Viewer{}, err
		}
	}
	if err := checkSameOrigin(r); err != nil {
		return access.Viewer{}, err
	}
	if a.Peer != nil && !a.Insecure {
		return a.localViewer(r), nil
	}
	return access.Viewer{Role: access.Admin}, nil
}

// socketPeer returns the process at the other end of the request's Unix socket, if the server listens on one.
func (a *Authenticator) socketPeer(r *http.Request) (peer.Peer, bool) {
	if a.Socket == nil {
		return peer.Peer{}, false
	}
	return a.Socket(r)
}

// socketViewer returns the viewer of a request through the Unix socket. root and the server's own user
// are admin, registered users have their role, and all others see only their own work.
func (a *Authenticator) socketViewer(ctx context.Context, p peer.Peer) (access.Viewer, error) {
	switch {
	case p.Foreign:
		return access.Viewer{Role: access.Public}, nil
	case p.UID == 0 || int(p.UID) == os.Geteuid():
		return access.Viewer{Role: access.Admin, Login: p.Name}, nil
	}
	users, err := a.Users.List(ctx)
	if err != nil {
		return access.Viewer{}, toRefusal(err, "")
	}
	for _, u := range users {
		if u.Name == p.Name {
			return access.Viewer{Role: u.Role, Name: u.Name, Owners: u.Owners}, nil
		}
	}
	return unixUser(p), nil
}

// unixUser returns the viewer of an unregistered local user, who sees their own work and may send their own figures.
func unixUser(p peer.Peer) access.Viewer {
	return access.Viewer{Role: access.User, Name: p.Name, Figures: true, Bound: access.Bound{Series: access.OwnSeries}}
}

// localViewer returns the viewer of a local request without credentials, by the Unix user of the connection. root and the
// server's own user become admin. Other users see their own work and may send their own figures. A sender that cannot
// be identified, or that is in another network namespace or behind a proxy, sees only data without names and may send
// nothing. If a proxy is configured, no connection makes an admin: the kernel reports the proxy's own user, and a proxy
// may omit its headers.
func (a *Authenticator) localViewer(r *http.Request) access.Viewer {
	p, ok := a.Peer(r)
	switch {
	case !ok || p.Foreign || isForwarded(r):
		return access.Viewer{Role: access.Public}
	case len(a.Proxies) == 0 && (p.UID == 0 || int(p.UID) == os.Geteuid()):
		return access.Viewer{Role: access.Admin, Login: p.Name}
	}
	return unixUser(p)
}

// isForwarded reports whether a proxy passed the request on.
func isForwarded(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// credentialViewer identifies the sender of a request by a bearer token, by name and password, or by a
// session cookie, in this order. Invalid credentials are an error, never a viewer with fewer
// rights.
func (a *Authenticator) credentialViewer(r *http.Request) (access.Viewer, error) {
	ctx := r.Context()
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		text := strings.TrimSpace(rest)
		if a.Cluster != nil && isJWT(text) {
			v, err := a.Cluster.CheckToken(ctx, text)
			return v, toRefusal(err, "send the token of a service account that this server lets in, made for the audience "+
				a.Cluster.Audience)
		}
		v, err := a.Users.CheckToken(ctx, text)
		return v, toRefusal(err, "send a token that `reckon token list` shows as valid")
	case strings.EqualFold(scheme, "Basic"):
		name, password, ok := r.BasicAuth()
		if !ok {
			return access.Viewer{}, access.Refuse(access.ErrUnauthenticated, "",
				errors.New("the name and the password are not sent in the form of RFC 7617"))
		}
		if _, by := a.socketPeer(r); by && a.Basic {
			return access.Viewer{}, access.Refuse(access.ErrUnauthenticated, "leave the name out: the kernel identifies the user",
				errors.New("names and passwords are not checked on the Unix socket"))
		}
		if a.Basic {
			return access.Viewer{Role: access.Admin, Name: name}, nil
		}
		v, err := a.Users.CheckPassword(ctx, name, password, a.senderAddress(r))
		return v, toRefusal(err, "sign in with another name or password")
	case scheme != "":
		return access.Viewer{}, access.Refuse(access.ErrUnauthenticated, "send Authorization: Bearer TOKEN",
			errors.New("unknown Authorization scheme"))
	}
	if c, err := r.Cookie(cookieName); err == nil {
		v, err := a.Users.CheckSession(ctx, c.Value)
		if err == nil {
			// A page of another site can make a browser send our cookie.
			if err := checkSameOrigin(r); err != nil {
				return access.Viewer{}, err
			}
			return v, nil
		}
		if !errors.Is(err, ErrSession) {
			return access.Viewer{}, err
		}
	}
	if a.Public {
		return access.Viewer{Role: access.Public}, nil
	}
	return access.Viewer{}, nil
}

// adminWithoutLogin reports whether a sender without credentials is an admin. It is checked for each request, because users may be
// added while the server runs.
func (a *Authenticator) adminWithoutLogin(ctx context.Context) (bool, error) {
	if a.Insecure {
		return true, nil
	}
	if !a.Local || a.OIDC != nil || a.Cluster != nil || a.Basic {
		return false, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.Users.clock(); now.Sub(a.checked) > time.Second {
		users, err := a.Users.List(ctx)
		if err != nil {
			return false, toRefusal(err, "")
		}
		a.hasUsers, a.checked = len(users) > 0, now
	}
	return !a.hasUsers, nil
}

// checkLocalName refuses names that are not of this machine.
func checkLocalName(host string) error {
	if webconfig.LocalHost(host) {
		return nil
	}
	return access.Refuse(access.ErrForbidden,
		"use http://localhost or http://127.0.0.1; to give others access, set another address with --listen and create a user",
		fmt.Errorf("this server answers this machine only, not for the name %.100q", host))
}

// checkSameOrigin refuses requests that a page of another site makes a browser send.
func checkSameOrigin(r *http.Request) error {
	if http.NewCrossOriginProtection().Check(r) == nil {
		return nil
	}
	return access.Refuse(access.ErrForbidden, "", errors.New("the request comes from a page of another site"))
}

// toRefusal wraps the error of a check in a refusal with its reason.
func toRefusal(err error, hint string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrSlow):
		return access.Refuse(access.ErrThrottled, "", err)
	case errors.Is(err, ErrToken), errors.Is(err, ErrRefused):
		return access.Refuse(access.ErrUnauthenticated, hint, err)
	case errors.Is(err, ErrKeys):
		return access.Refuse(access.ErrUndecided, "see the server log", ErrKeys)
	}
	return access.Refuse(access.ErrUndecided, "see the server log", errors.New("the file of users could not be read"))
}
