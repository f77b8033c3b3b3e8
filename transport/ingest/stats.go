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
	whyInvalid  = "invalid"   // labels or values that are never valid
	whyConflict = "duplicate" // another value is stored for the same time
	whyTooOld   = "too_old"
	whyFuture   = "future"
	whyScope    = "not_allowed"     // for nodes outside the scope of the token
	whyLimit    = "limit"           // of series, labels or their lengths
	whyDelta    = "delta"           // OTLP of delta temporality that could not be accumulated
	whyStore    = "store"           // refused by a remote store
	whyAnother  = "another_machine" // measured while another machine had the name
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

func (s *Stats) request(protocol string, code int) {
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

func (s *Stats) stored(protocol string, n int) {
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

func (s *Stats) addRefused(sender string, why map[string]int) {
	if s == nil || len(why) == 0 {
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
	for reason, n := range why {
		s.refused[refusedKey{sender, reason}] += uint64(n)
	}
}

var (
	statRequests = &metric.Desc{Name: "reckon_server_ingest_requests_total", Kind: metric.Counter, Labels: []string{"protocol", "status"},
		Help: "Requests that brought samples, by protocol and status of the answer."}
	statSamples = &metric.Desc{Name: "reckon_server_ingest_samples_total", Kind: metric.Counter, Labels: []string{"protocol"},
		Help: "Samples that others sent and that were stored."}
	statRefused = &metric.Desc{Name: "reckon_server_ingest_refused_samples_total", Kind: metric.Counter,
		Labels: []string{"sender", "reason"},
		Help: "Samples that were refused for good, by the token or name of the sender: invalid, duplicate, too_old, future, " +
			"not_allowed, limit, delta (cannot be accumulated), another_machine (measured while another machine had the name), or store " +
			"(refused by a remote store)."}
)

// Descs describes the series that Gather adds.
func Descs() []*metric.Desc { return []*metric.Desc{statRequests, statSamples, statRefused} }

// Gather adds the counters to a batch.
func (s *Stats) Gather(b *metric.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(s.requests), func(a, b requestKey) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.status, b.status))
	}) {
		b.Add(metric.NewSeries(statRequests, k.protocol, k.status), float64(s.requests[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(s.samples)) {
		b.Add(metric.NewSeries(statSamples, k), float64(s.samples[k]))
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.refused), func(a, b refusedKey) int {
		return cmp.Or(cmp.Compare(a.sender, b.sender), cmp.Compare(a.reason, b.reason))
	}) {
		b.Add(metric.NewSeries(statRefused, k.sender, k.reason), float64(s.refused[k]))
	}
}
