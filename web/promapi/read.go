package promapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of a remote read request (prompb/remote.proto). Without them, a request of 1 MB could have eight million empty
// queries that each read the whole store. Prometheus itself sends one query per selector.
const (
	maxReadBytes   = 1 << 20 // packed, and four times that unpacked
	maxReadQueries = 100
	readQueries    = 1 // the field of ReadRequest
)

// limitRead refuses remote read requests with too many queries before they are decoded.
func limitRead(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/read" || r.Body == nil {
			h.ServeHTTP(w, r)
			return
		}
		packed, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReadBytes))
		if err == nil {
			err = checkQueryCount(packed)
		}
		if err != nil {
			writeBadData(w, err.Error())
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(packed))
		h.ServeHTTP(w, r)
	})
}

// maxSelectors is the number of selectors that a request for series or labels may name. Each reads and sorts all series that it selects.
const maxSelectors = 100

// limitSelectors refuses requests for series and labels with more.
func limitSelectors(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err == nil && len(r.Form["match[]"]) > maxSelectors {
			writeBadData(w,
				fmt.Sprintf("the request has %d selectors (match[]), at most %d are taken; join them to one by a regular expression",
					len(r.Form["match[]"]), maxSelectors))
			return
		}
		h.ServeHTTP(w, r)
	})
}

func writeBadData(w http.ResponseWriter, text string) {
	writeError(w, http.StatusBadRequest, "bad_data", text)
}

// checkQueryCount returns an error if a packed ReadRequest has too many queries.
func checkQueryCount(packed []byte) error {
	n, err := s2.DecodedLen(packed)
	if err != nil {
		return fmt.Errorf("the body is not packed by snappy (block format): %w", err)
	}
	if n > 4*maxReadBytes {
		return fmt.Errorf("the request has %d bytes unpacked, at most %d are taken", n, 4*maxReadBytes)
	}
	b, err := s2.Decode(nil, packed)
	if err != nil {
		return fmt.Errorf("the body is not packed by snappy (block format): %w", err)
	}
	for queries := 0; len(b) > 0; {
		num, kind, n := protowire.ConsumeTag(b)
		if n >= 0 {
			b = b[n:]
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("the body is no prometheus.ReadRequest: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if num == readQueries {
			if queries++; queries > maxReadQueries {
				return fmt.Errorf("the request has more than %d queries; send fewer at a time", maxReadQueries)
			}
		}
	}
	return nil
}
