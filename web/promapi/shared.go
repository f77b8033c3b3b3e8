package promapi

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"reckon/access"
)

// shared answers pages of those who see all with what another of them was answered to the same question: pages of one site ask
// alike, for whole steps of time. A request asks for it by its
// Cache-Control (RFC 9111, section 5.2.1.1). It keeps at most 128 answers of at most 64 KiB.
func shared(next http.Handler) http.Handler {
	kept := expirable.NewLRU[string, []byte](128, nil, 15*time.Second)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Cache-Control") != "max-age=15" || !access.From(r.Context()).All() ||
			!strings.HasPrefix(r.URL.Path, "/api/v1/query") {
			next.ServeHTTP(w, r)
			return
		}
		question := r.URL.Path + "?" + r.URL.RawQuery
		if body, ok := kept.Get(question); ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body) // the client went away: nothing left to report
			return
		}
		c := &copied{ResponseWriter: w}
		if next.ServeHTTP(c, r); !c.failed && c.body.Len() <= 64<<10 {
			kept.Add(question, c.body.Bytes())
		}
	})
}

// copied keeps what it passes on.
type copied struct {
	http.ResponseWriter
	body   bytes.Buffer
	failed bool
}

func (c *copied) WriteHeader(status int) {
	c.failed = c.failed || status != http.StatusOK
	c.ResponseWriter.WriteHeader(status)
}

func (c *copied) Write(b []byte) (int, error) {
	c.body.Write(b)
	n, err := c.ResponseWriter.Write(b)
	c.failed = c.failed || err != nil
	return n, err
}
