package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// conditional is an answer that is sent only where it differs from the one that the client
// has (RFC 9110, section 13): pages ask again every few seconds.
type conditional struct {
	http.ResponseWriter
	have string // If-None-Match
}

// Unwrap lets http.ResponseController reach the connection.
func (c *conditional) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// unchanged names the body by its sum, and reports whether the client has it; then the answer
// is written. The tag is a weak one: the body may travel compressed.
func (c *conditional) unchanged(body []byte) bool {
	sum := sha256.Sum256(body)
	tag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
	h := c.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache") // kept by the browser alone, and asked for whether it is still the same
	h.Add("Vary", "Accept, Authorization, Cookie")
	for _, have := range strings.Split(c.have, ",") {
		if have = strings.TrimSpace(have); have == tag || have == strings.TrimPrefix(tag, "W/") {
			c.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}
