package account

import (
	"reckon/metric"
	"reckon/sensor"
)

var queueDelays = &metric.Desc{
	Name: "reckon_workload_run_queue_seconds", Kind: metric.NativeHistogram, Unit: metric.Seconds,
	Help:   "How long threads of the workload waited for a processor, one observation each time that one got it; the response time of interactive work is the upper end of this distribution.",
	Labels: with(),
}

// queueFirst is the exponent of the end of the first bucket of sensor.Queue, in seconds.
const queueFirst = -20

// queues is the ledger's state of run queue delays.
type queues struct {
	counting
	waiting []awaited[sensor.Queue]
}

// queue is the delays of a part.
type queue struct {
	use       sensor.Queue
	histogram metric.Histogram // as of the latest export
	row       *metric.Series
}

// Queue takes in the run queue delays of processes up to the tick that the ledger took last. Delays of processes that
// remain unidentified go to other.
func (l *Ledger) Queue(pass *sensor.QueuePass) {
	if l.other == nil {
		return // no tick yet
	}
	q := &l.queues
	q.begin(l)
	for i := range pass.Queued {
		w := &pass.Queued[i]
		q.waiting = append(q.waiting, awaited[sensor.Queue]{w.PID, w.Start, l.tick + patience, w.Delay})
	}
	settle(l, &q.waiting, (*Part).delay)
	l.other.delay(&pass.Unowned)
	q.full = q.full || pass.Missed > 0 || pass.Unowned.Nanos > 0
}

func (p *Part) delay(d *sensor.Queue) {
	if *d == (sensor.Queue{}) {
		return
	}
	if p.queue == nil {
		p.queue = new(queue)
	}
	p.queue.use.Add(d)
}

// exportQueue appends the distribution of a part that had a delay.
func (l *Ledger) exportQueue(p *Part, b *metric.Batch) {
	if p.queue == nil {
		return
	}
	q := p.queue
	if q.row == nil {
		q.row = p.series(queueDelays)
		if q.row.Created == 0 {
			q.row.Created = l.queues.began
		}
	}
	h := &q.histogram
	h.Reset()
	h.AddOctaves(queueFirst, q.use.Octaves[:], seconds(q.use.Nanos))
	b.AddHistogram(q.row, h)
}

// queueState is the serialized delays of a part, nil where it had none.
func (p *Part) queueState() *sensor.Queue {
	if p.queue == nil {
		return nil
	}
	use := p.queue.use
	return &use
}
