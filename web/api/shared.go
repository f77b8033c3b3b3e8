package api

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reckon/access"
)

// shareResponses returns a wrapper that reuses a response for up to 15 s among viewers who may see everything. A request must
// allow that with its Cache-Control (RFC 9111, section 5.2.1.1). It keeps 128 responses of up to mostShared bytes each,
// in encoded form. It needs no goroutine of its own.
func shareResponses() func(http.Handler) http.Handler {
	var kept sync.Map // question to *copied
	var number atomic.Int32
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v, in := access.From(r.Context()), r.Header
			question := strings.Join([]string{r.URL.String(), in.Get("Accept"), in.Get("Accept-Encoding"), v.Role.String()}, "\n")
			if r.Method != http.MethodGet || in.Get("Cache-Control") != "max-age=15" || !v.All() || in.Get("If-None-Match") != "" {
				next.ServeHTTP(w, r)
			} else if was, ok := kept.Load(question); ok {
				have := was.(*copied)
				maps.Copy(w.Header(), have.sent.Clone())
				_, _ = w.Write(have.body.Bytes()) // the client went away: nothing left to report
			} else {
				c := &copied{ResponseWriter: w}
				if next.ServeHTTP(c, r); c.sent != nil && c.body.Len() <= mostShared && number.Load() < 128 {
					c.ResponseWriter = nil
					number.Add(1)
					kept.Store(question, c)
					time.AfterFunc(15*time.Second, func() {
						kept.Delete(question)
						number.Add(-1)
					})
				}
			}
		})
	}
}

const mostShared = 128 << 10

// copied keeps the response that it passes on, up to the size that is shared.
type copied struct {
	http.ResponseWriter
	body   bytes.Buffer
	status int
	sent   http.Header // nil for all but a good answer
}

func (c *copied) WriteHeader(status int) {
	if c.status = status; status == http.StatusOK {
		c.sent = c.Header().Clone()
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *copied) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	if c.body.Len() <= mostShared {
		c.body.Write(b)
	}
	return c.ResponseWriter.Write(b)
}
