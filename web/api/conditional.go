package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// conditional sends a response only if it differs from the client's copy (RFC 9110, section 13). Pages poll every few
// seconds, and most of their data does not change.
type conditional struct {
	http.ResponseWriter
	have string // If-None-Match
}

// Unwrap lets http.ResponseController reach the connection.
func (c *conditional) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// unchanged sets the header ETag to a hash of the body. If the client already has this body, unchanged writes the
// response 304 and returns true. The tag is weak, because the body may be compressed.
func (c *conditional) unchanged(body []byte) bool {
	sum := sha256.Sum256(body)
	tag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
	h := c.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache") // cached by the browser only, and revalidated
	h.Add("Vary", "Accept, Authorization, Cookie")
	for _, have := range strings.Split(c.have, ",") {
		if have = strings.TrimSpace(have); have == tag || have == strings.TrimPrefix(tag, "W/") {
			c.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}
