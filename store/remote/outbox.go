package remote

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"

	"reckon/internal/queue"
)

// outbox is a queue of requests on disk, with the goroutine that sends them in order.
type outbox struct {
	s      *Store
	queue  *queue.Queue
	cancel context.CancelFunc
	done   chan struct{}
	lost   atomic.Uint64
	logged string
}

// The first byte of a record: initial zeros of counters may be refused.
const (
	recordZeros = 'z'
	recordMain  = 'm'
)

func openOutbox(s *Store, dir string, maxBytes int64) (*outbox, error) {
	q, err := queue.Open(queue.Options{Dir: dir, MaxBytes: maxBytes})
	if err != nil {
		return nil, fmt.Errorf("open the send queue for %s: %w", s, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := &outbox{s: s, queue: q, cancel: cancel, done: make(chan struct{})}
	go o.run(ctx)
	return o, nil
}

// enqueue queues the collected samples. The error names the samples that the server cannot represent.
func (o *outbox) enqueue(w *writeBatch) error {
	if o.queue.Stats().Records > 0 {
		if err := o.queue.Sync(); err != nil {
			o.s.log.Warn("queued samples are not safe from a power cut", "to", o.s.String(), "err", err)
		}
	}
	var errs []error
	record := func(kind byte, list []prompb.TimeSeries, meta []prompb.MetricMetadata) {
		raw, err := proto.Marshal(&prompb.WriteRequest{Timeseries: list, Metadata: meta})
		if err == nil {
			err = o.queue.Put(append([]byte{kind}, s2.EncodeSnappy(nil, raw)...))
		}
		errs = append(errs, err)
	}
	if len(w.zeros) > 0 {
		record(recordZeros, w.zeros, nil)
	}
	meta := o.s.takeDescriptions()
	for _, part := range splitRequests(w.series) {
		record(recordMain, part, meta)
		meta = nil
	}
	o.s.recordWritten(w.series)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("queue for %s: %w", o.s, err)
	}
	if w.refused.Refused > 0 {
		w.refused.Stored = countSamples(w.series)
		return &w.refused
	}
	return nil
}

func (o *outbox) run(ctx context.Context) {
	defer close(o.done)
	wait := time.Duration(0)
	for ctx.Err() == nil {
		err := o.sendNext(ctx)
		switch {
		case err == nil:
			wait = 0
		case errors.Is(err, queue.ErrEmpty):
			select {
			case <-o.queue.Ready():
			case <-ctx.Done():
			}
		default:
			if o.logged != err.Error() && ctx.Err() == nil {
				o.logged = err.Error()
				o.s.log.Warn("nothing can be sent to the store; it is kept and sent later", "to", o.s.String(), "err", err)
			}
			wait = min(max(2*wait, time.Second), maxRetryDelay)
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

// sendNext sends the oldest record.
func (o *outbox) sendNext(ctx context.Context) error {
	r, err := o.queue.Peek(nil)
	if err != nil {
		return err
	}
	var req prompb.WriteRequest
	if len(r.Data) > 1 {
		var raw []byte
		if raw, err = s2.Decode(nil, r.Data[1:]); err == nil {
			err = proto.Unmarshal(raw, &req)
		}
	}
	if err != nil || len(r.Data) < 2 {
		o.s.log.Error("invalid record in the queue; it is skipped", "to", o.s.String(), "err", err)
		return o.queue.Done(r)
	}
	budget, refuse := maxRequests, func(n int, err error) {
		o.lost.Add(uint64(n))
		o.s.log.Warn("samples were refused and are dropped", "to", o.s.String(), "samples", n, "err", err)
	}
	if r.Data[0] == recordZeros {
		budget, refuse = maxZeroRequests, func(int, error) {}
	}
	noted, err := o.s.noteLate(req.Timeseries)
	if err != nil {
		return err
	}
	defer noted()
	if _, err := o.s.deliver(ctx, req.Timeseries, req.Metadata, &budget, refuse); err != nil {
		return err
	}
	if o.logged != "" {
		o.logged = ""
		o.s.log.Info("sending to the store again", "to", o.s.String(), "waiting", o.queue.Stats().Records)
	}
	if err := o.queue.Done(r); err != nil {
		return err
	}
	if o.s.o.Sent != nil {
		o.s.o.Sent()
	}
	return nil
}

func (o *outbox) stats() (waiting int, lost uint64) {
	s := o.queue.Stats()
	return int(s.Records), o.lost.Load()
}

// close stops sending. Waiting records stay on disk.
func (o *outbox) close() error {
	o.cancel()
	<-o.done
	return o.queue.Close()
}
