package expose

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reckon/metric"
)

// Handler returns an HTTP handler that serves the samples that gather adds to a batch. The request's headers select the
// format and the compression.
//
// Only one call of gather runs at a time, because a batch is valid only until the next reading of its producers. The
// response is encoded from a copy and written in pieces, so that a slow client does not block others. If gather returns
// an error and no samples, the response is 503 with the error text. Samples that were added before an error are served.
func Handler(gather func(*metric.Batch) error, o Options) http.Handler {
	return &handler{gather: gather, options: o}
}

type handler struct {
	gather  func(*metric.Batch) error
	options Options

	mu sync.Mutex // guards gather

	// last is a page that is not in use. It outlives the several garbage collections between two scrapes.
	last  atomic.Pointer[page]
	pages sync.Pool // further unused pages, of type *page
}

// page is the memory of one response.
type page struct {
	enc        *Encoder
	batch      metric.Batch
	histograms []metric.Histogram
	piece      []byte
	packed     bytes.Buffer
	gz         *gzip.Writer
}

// acquirePage returns a page for one response.
func (h *handler) acquirePage() *page {
	if p := h.last.Swap(nil); p != nil {
		return p
	}
	if p, _ := h.pages.Get().(*page); p != nil {
		return p
	}
	return &page{enc: NewEncoder(h.options)}
}

// releasePage returns a page to the pool.
func (h *handler) releasePage(p *page) {
	p.batch.Reset(time.Time{}) // do not keep ended series
	if !h.last.CompareAndSwap(nil, p) {
		h.pages.Put(p)
	}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	p := h.acquirePage()
	defer h.releasePage(p)
	if err := h.collect(p); err != nil {
		http.Error(w, "gather metrics: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	if h.options.Keep != nil {
		if keep := h.options.Keep(r); keep != nil {
			p.batch.Samples = slices.DeleteFunc(p.batch.Samples, func(s metric.Sample) bool { return !keep(s.Series) })
		}
	}
	f := Negotiate(strings.Join(r.Header.Values("Accept"), ","))
	head := w.Header()
	head.Set("Content-Type", f.ContentType())
	head.Set("Vary", "Accept, Accept-Encoding")
	zip := acceptsGzip(r.Header.Values("Accept-Encoding"))
	if zip {
		head.Set("Content-Encoding", "gzip")
	}
	switch {
	case r.Method == http.MethodHead:
	case zip:
		answer := p.compress(f)
		head.Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // the client has disconnected
	default:
		p.write(f, w)
	}
}

// collect copies the current samples to the page.
func (h *handler) collect(p *page) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.batch.Reset(time.Now())
	if err := h.gather(&p.batch); err != nil && len(p.batch.Samples) == 0 {
		return err
	}
	p.histograms = p.batch.OwnHistograms(p.histograms)
	return nil
}

// write writes the page until the client has disconnected.
func (p *page) write(f Format, w io.Writer) {
	var gone error
	write := func(b []byte) {
		if gone == nil {
			_, gone = w.Write(b)
		}
	}
	p.piece = p.enc.appendFlushing(p.piece[:0], f, &p.batch, write)
	write(p.piece)
}

// compress returns the whole page compressed to about a tenth. It is valid until the next call.
func (p *page) compress(f Format) []byte {
	p.packed.Reset()
	if p.gz == nil {
		p.gz, _ = gzip.NewWriterLevel(&p.packed, gzip.BestSpeed) // the level is valid
	} else {
		p.gz.Reset(&p.packed)
	}
	p.write(f, p.gz)
	_ = p.gz.Close() // into memory: never fails
	return p.packed.Bytes()
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
