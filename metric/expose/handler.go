package expose

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"reckon/metric"
)

// Handler serves what gather adds to a batch, in the format and with the
// compression that the request asks for.
//
// Scrapes that come at the same time are gathered and encoded one after the other,
// since a batch is valid only until the next read of its producers; a client that
// reads slowly holds up nobody. When gather returns an error and has added nothing
// the answer is 503 with the text of the error; what was added before an error is
// served.
func Handler(gather func(*metric.Batch) error, o Options) http.Handler {
	return &handler{gather: gather, enc: NewEncoder(o)}
}

type handler struct {
	gather func(*metric.Batch) error

	mu    sync.Mutex // guards what follows
	enc   *Encoder
	batch metric.Batch

	pages sync.Pool // *page
}

// page is the memory of one answer.
type page struct {
	body []byte
	gz   *gzip.Writer
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
	if err := h.encode(p, f); err != nil {
		http.Error(w, "gather metrics: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	head := w.Header()
	head.Set("Content-Type", f.ContentType())
	head.Set("Vary", "Accept, Accept-Encoding")
	if !acceptsGzip(r.Header.Values("Accept-Encoding")) {
		head.Set("Content-Length", strconv.Itoa(len(p.body)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(p.body) // the client has gone: nobody to tell
		}
		return
	}
	head.Set("Content-Encoding", "gzip")
	if r.Method == http.MethodHead {
		return
	}
	if p.gz == nil {
		p.gz, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
	} else {
		p.gz.Reset(w)
	}
	_, _ = p.gz.Write(p.body)
	_ = p.gz.Close()
	p.gz.Reset(nil) // do not keep the answer alive in the pool
}

func (h *handler) encode(p *page, f Format) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batch.Reset(time.Now())
	if err := h.gather(&h.batch); err != nil && len(h.batch.Samples) == 0 {
		return err
	}
	p.body = h.enc.Append(p.body[:0], f, &h.batch)
	return nil
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
