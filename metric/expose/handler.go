package expose

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"reckon/metric"
)

// Handler serves the samples that gather adds to a batch, in the format and with the
// compression that the request accepts.
//
// Concurrent scrapes are gathered and encoded one after the other,
// since a batch is valid only until the next read of its producers; a slow client
// does not block others. If gather returns an error without adding samples,
// the response is 503 with the text of the error; samples added before an error are
// served.
func Handler(gather func(*metric.Batch) error, o Options) http.Handler {
	return &handler{gather: gather, enc: NewEncoder(o)}
}

type handler struct {
	gather func(*metric.Batch) error

	mu    sync.Mutex // guards the following fields
	enc   *Encoder
	batch metric.Batch

	pages sync.Pool // *page
}

// page is the buffer of one response.
type page struct {
	body   []byte // the whole page, or the piece being compressed
	packed bytes.Buffer
	gz     *gzip.Writer
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	p, _ := h.pages.Get().(*page)
	if p == nil {
		p = &page{}
	}
	defer h.pages.Put(p)

	f := Negotiate(strings.Join(r.Header.Values("Accept"), ","))
	zip := acceptsGzip(r.Header.Values("Accept-Encoding"))
	if err := h.encode(p, f, zip); err != nil {
		http.Error(w, "gather metrics: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	head := w.Header()
	head.Set("Content-Type", f.ContentType())
	head.Set("Vary", "Accept, Accept-Encoding")
	answer := p.body
	if zip {
		head.Set("Content-Encoding", "gzip")
		answer = p.packed.Bytes()
	}
	head.Set("Content-Length", strconv.Itoa(len(answer)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(answer) // the client has disconnected
	}
}

// encode encodes the page: whole, or compressed piece by piece, which needs a tenth of the memory.
func (h *handler) encode(p *page, f Format, zip bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batch.Reset(time.Now())
	if err := h.gather(&h.batch); err != nil && len(h.batch.Samples) == 0 {
		return err
	}
	if !zip {
		p.body = h.enc.Append(p.body[:0], f, &h.batch)
		return nil
	}
	p.packed.Reset()
	if p.gz == nil {
		p.gz, _ = gzip.NewWriterLevel(&p.packed, gzip.BestSpeed) // the level is valid
	} else {
		p.gz.Reset(&p.packed)
	}
	write := func(b []byte) { _, _ = p.gz.Write(b) } // into memory: never fails
	p.body = h.enc.pieces(p.body[:0], f, &h.batch, write)
	write(p.body)
	return p.gz.Close()
}

func acceptsGzip(headers []string) bool {
	for _, h := range headers {
		for part := range strings.SplitSeq(h, ",") {
			name, params, _ := strings.Cut(part, ";")
			if strings.TrimSpace(name) != "gzip" {
				continue
			}
			q, given := strings.CutPrefix(strings.TrimSpace(params), "q=")
			if !given {
				return true
			}
			v, err := strconv.ParseFloat(q, 64)
			return err == nil && v > 0
		}
	}
	return false
}
