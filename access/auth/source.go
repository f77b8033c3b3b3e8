package auth

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// senderAddress returns the address of the sender without its port. If trusted proxies passed the request on, source returns
// the last address in their list that is not a trusted proxy.
func (a *Authenticator) senderAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if !a.isTrustedProxy(host) {
		return host
	}
	// Several fields are one list. The right end was written by the nearest proxy.
	passed := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(passed) {
		text = strings.TrimSpace(text)
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return host
		}
		host = ip.Unmap().String()
		if !a.isTrustedProxy(host) {
			break
		}
	}
	return host
}

// isTrustedProxy reports whether an address belongs to a trusted proxy.
func (a *Authenticator) isTrustedProxy(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	return slices.ContainsFunc(a.Proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// usesTLS reports whether the browser uses TLS, to us or to a trusted proxy.
func (a *Authenticator) usesTLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && a.isTrustedProxy(host) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
