package ingest

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"reckon/metric"
)

// Reasons for refused samples, as a label.
const (
	reasonInvalid      = "invalid"   // labels or values that are never valid
	reasonConflict     = "duplicate" // another value is stored for the same time
	reasonTooOld       = "too_old"
	reasonFuture       = "future"
	reasonScope        = "not_allowed"     // for nodes outside the scope of the token
	reasonLimit        = "limit"           // of series, labels or their lengths
	reasonDelta        = "delta"           // OTLP of delta temporality that could not be accumulated
	reasonStore        = "store"           // refused by a remote store
	reasonOtherMachine = "another_machine" // measured while another machine had the name
)

// maxSenders is the number of senders counted by name; others are counted together.
const maxSenders = 500

// Stats counts requests and samples. The zero value is ready; it is safe for concurrent use.
type Stats struct {
	mu       sync.Mutex
	requests map[requestKey]uint64
	samples  map[string]uint64 // by protocol
	refused  map[refusedKey]uint64
	senders  map[string]bool
}

type requestKey struct{ protocol, status string }

type refusedKey struct{ sender, reason string }

func (s *Stats) countRequest(protocol string, code int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		s.requests = map[requestKey]uint64{}
	}
	s.requests[requestKey{protocol, strconv.Itoa(cmp.Or(code, http.StatusOK))}]++
}

func (s *Stats) countStored(protocol string, n int) {
	if s == nil || n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.samples == nil {
		s.samples = map[string]uint64{}
	}
	s.samples[protocol] += uint64(n)
}

func (s *Stats) countRefused(sender string, reasons map[string]int) {
	if s == nil || len(reasons) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil {
		s.refused, s.senders = map[refusedKey]uint64{}, map[string]bool{}
	}
	if !s.senders[sender] && len(s.senders) >= maxSenders {
		sender = "others"
	}
	s.senders[sender] = true
	for reason, n := range reasons {
		s.refused[refusedKey{sender, reason}] += uint64(n)
	}
}

var (
	requestsDesc = &metric.Desc{Name: "reckon_server_ingest_requests_total", Kind: metric.Counter, Labels: []string{"protocol", "status"},
		Help: "Requests that brought samples, by protocol and status of the answer."}
	samplesDesc = &metric.Desc{Name: "reckon_server_ingest_samples_total", Kind: metric.Counter, Labels: []string{"protocol"},
		Help: "Samples that others sent and that were stored."}
	refusedDesc = &metric.Desc{Name: "reckon_server_ingest_refused_samples_total", Kind: metric.Counter,
		Labels: []string{"sender", "reason"},
		Help: "Samples that were refused for good, by the token or name of the sender: invalid, duplicate, too_old, future, " +
			"not_allowed, limit, delta (cannot be accumulated), another_machine (measured while another machine had the name), or store " +
			"(refused by a remote store)."}
)

// Descs describes the series that Gather adds.
func Descs() []*metric.Desc { return []*metric.Desc{requestsDesc, samplesDesc, refusedDesc} }

// Gather adds the counters to a batch.
func (s *Stats) Gather(b *metric.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(s.requests), func(a, b requestKey) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.status, b.status))
	}) {
		b.Add(metric.NewSeries(requestsDesc, k.protocol, k.status), float64(s.requests[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(s.samples)) {
		b.Add(metric.NewSeries(samplesDesc, k), float64(s.samples[k]))
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.refused), func(a, b refusedKey) int {
		return cmp.Or(cmp.Compare(a.sender, b.sender), cmp.Compare(a.reason, b.reason))
	}) {
		b.Add(metric.NewSeries(refusedDesc, k.sender, k.reason), float64(s.refused[k]))
	}
}
