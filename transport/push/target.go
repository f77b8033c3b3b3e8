package push

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"

	"reckon/internal/queue"
	"reckon/metric"
	"reckon/transport/instance"
)

// target is an endpoint with its queue and the state of its transmission.
type target struct {
	e      Endpoint
	name   string
	url    string
	shown  string // the address without secrets, for people
	agent  string
	sender instance.Sender // without Age and Sent
	opened time.Time
	log    *slog.Logger
	client *http.Client
	queue  *queue.Queue

	corrector *corrector // nil if the clock is not corrected

	// For put, under the lock of the Pusher.
	encoder *Encoder
	record  []byte

	// For the sender's goroutine.
	protocol string // the protocol that the receiver supports; empty before its first response
	native   bool   // it accepts native histograms by 1.0
	legacy   v1Converter
	soonest  time.Duration // minimum delay before a failed request is retried
	shifter  shifter
	shiftBuf []byte
	buf      []byte
	plain    []byte
	body     []byte

	mu        sync.Mutex
	st        Status
	syncEvery time.Duration
	synced    time.Time // last sync of the queue to disk; used by put
}

func newTarget(e *Endpoint, c *Config) (*target, error) {
	u, err := ParseURL(e.URL)
	if err != nil {
		return nil, err
	}
	t := &target{e: *e, name: cmp.Or(e.Name, endpointName(u)), url: u.String(), shown: u.Redacted(), agent: c.UserAgent, log: c.Logger,
		soonest: backoffMin}
	t.e.Timeout = cmp.Or(e.Timeout, 30*time.Second)
	if t.name != folderName(t.name) || t.name == "." || t.name == ".." {
		return nil, fmt.Errorf("push to %s: the name %q is that of a folder too: letters, digits, dot, dash and underscore only", t.shown,
			t.name)
	}
	switch e.Protocol {
	case "", "auto":
	case "1.0", "2.0":
		t.protocol = e.Protocol
	default:
		return nil, fmt.Errorf("push to %s: protocol %q: write auto, 2.0 or 1.0", t.shown, e.Protocol)
	}
	switch e.Histograms {
	case "native":
		t.native = true
	case "", "auto", "classic":
	default:
		return nil, fmt.Errorf("push to %s: histograms %q: write auto, native or classic", t.shown, e.Histograms)
	}
	if e.Username != "" && e.PasswordFile == "" {
		return nil, fmt.Errorf("push to %s: a username without password_file", t.shown)
	}
	filter, err := NewFilter(e.Keep, e.Drop)
	if err != nil {
		return nil, fmt.Errorf("push to %s: %w", t.shown, err)
	}
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	maps.Copy(labels, e.Labels)
	t.encoder = NewEncoder(labels, filter)
	t.sender, t.opened = instance.Sender{ID: c.Instance, Site: labels["site"], Node: labels["node"]}, time.Now()
	t.syncEvery = c.SyncEvery
	if t.client, err = newClient(&t.e, u.Host); err != nil {
		return nil, err
	}
	t.st = Status{Name: t.name, URL: t.shown, Protocol: t.protocol}
	return t, nil
}

// enqueue adds a batch to the queue of the endpoint. If earlier batches are still queued, it syncs them to disk first. An endpoint that
// works needs no sync. An endpoint that cannot be reached loses no more than one export in a power failure.
func (t *target) enqueue(b *metric.Batch) error {
	if t.queue.Stats().Records > 0 && b.Time.Sub(t.synced).Abs() >= t.syncEvery {
		t.synced = b.Time
		if err := t.queue.Sync(); err != nil {
			t.log.Warn("queued samples are not safe from a power cut", "to", t.shown, "err", err)
		}
	}
	var errs []error
	err := t.encoder.Encode(b, func(request []byte, samples int) error {
		if t.corrector != nil {
			boot, base := t.corrector.stamp(b.Time)
			request = appendClock(request, boot, base)
		}
		// A record is the number of samples and the encoded request.
		t.record = binary.LittleEndian.AppendUint32(t.record[:0], uint32(samples))
		need := len(t.record) + s2.MaxEncodedLen(len(request))
		if cap(t.record) < need {
			t.record = append(make([]byte, 0, need), t.record...)
		}
		packed := s2.EncodeSnappy(t.record[len(t.record):need], request)
		t.record = t.record[:len(t.record)+len(packed)]
		if err := t.queue.Put(t.record); err != nil {
			errs = append(errs, err)
			t.updateStatus(func(s *Status) { s.Lost += uint64(samples) })
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

func (t *target) updateStatus(change func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.st)
}

func (t *target) status() Status {
	t.mu.Lock()
	s := t.st
	t.mu.Unlock()
	s.Queue = t.queue.Stats()
	return s
}
