package promapi

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reckon/access"
)

// shared gives those who see all the answer that another of them had to the same question at most 15 s ago. A request asks for it
// by its Cache-Control (RFC 9111, section 5.2.1.1). At most 128 answers of at most mostShared bytes are kept. Nothing runs while none is.
func shared(next http.Handler) http.Handler {
	var kept sync.Map // question to bytes
	var number atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question := r.URL.Path + "?" + r.URL.RawQuery
		if r.Method != http.MethodGet || r.Header.Get("Cache-Control") != "max-age=15" || !access.From(r.Context()).All() ||
			!strings.HasPrefix(question, "/api/v1/query") {
			next.ServeHTTP(w, r)
		} else if body, ok := kept.Load(question); ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body.([]byte)) // the client went away: nothing left to report
		} else {
			c := &copied{ResponseWriter: w}
			if next.ServeHTTP(c, r); c.status == http.StatusOK && c.body.Len() <= mostShared && number.Load() < 128 {
				number.Add(1)
				kept.Store(question, c.body.Bytes())
				time.AfterFunc(15*time.Second, func() {
					kept.Delete(question)
					number.Add(-1)
				})
			}
		}
	})
}

const mostShared = 64 << 10

// copied keeps what it passes on, until that is more than is shared.
type copied struct {
	http.ResponseWriter
	body   bytes.Buffer
	status int
}

func (c *copied) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *copied) Write(b []byte) (int, error) {
	if c.body.Len() <= mostShared {
		c.body.Write(b)
	}
	return c.ResponseWriter.Write(b)
}
