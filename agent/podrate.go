package agent

import (
	"context"
	"fmt"
	"time"

	"reckon/internal/kubelet"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// rateAnnotation is the annotation of a pod that requests more frequent exports of its figures, such as 1s.
const rateAnnotation = "reckon/rate"

const (
	// minInterval is the shortest interval between two exports of a pod. maxFastPods is the maximum number of pods per
	// node with an export interval of their own. The limit keeps the cost of other pods' exports low.
	minInterval = time.Second
	maxFastPods = 20
)

// fastPods holds the pods that are exported more often than all others.
type fastPods struct {
	pods  map[string]*fastPod // by reported UID
	batch metric.Batch
	left  int // pods that asked and are too many
	noted bool
}

type fastPod struct {
	every time.Duration
	next  time.Time
	seen  bool
}

// requestedInterval returns the export interval that a pod requests, or 0 for the common one or an invalid request.
func requestedInterval(p *kubelet.Pod, export time.Duration) time.Duration {
	text := p.Annotations[rateAnnotation]
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0
	}
	if d = max(d, minInterval); d >= export {
		return 0
	}
	return d
}

// setPods sets the export intervals from the list of pods. If too many pods request one, those that requested it
// first keep theirs.
func (r *fastPods) setPods(pods []*kubelet.Pod, export time.Duration, now time.Time) {
	for _, x := range r.pods {
		x.seen = false
	}
	var asking []*kubelet.Pod
	for _, p := range pods {
		d := requestedInterval(p, export)
		if d == 0 || p.Phase == "Succeeded" || p.Phase == "Failed" {
			continue
		}
		if x := r.pods[p.ReportedUID]; x != nil {
			x.every, x.seen = d, true
		} else {
			asking = append(asking, p)
		}
	}
	for uid, x := range r.pods {
		if !x.seen {
			delete(r.pods, uid)
		}
	}
	r.left = 0
	for _, p := range asking {
		if len(r.pods) >= maxFastPods {
			r.left++
			continue
		}
		if r.pods == nil {
			r.pods = map[string]*fastPod{}
		}
		r.pods[p.ReportedUID] = &fastPod{every: requestedInterval(p, export), next: now, seen: true}
	}
}

// duePods returns the pods that are due for an export. The export times of a pod stay multiples of its interval apart.
func (r *fastPods) duePods(now time.Time) map[string]bool {
	var out map[string]bool
	for uid, x := range r.pods {
		if now.Before(x.next) {
			continue
		}
		if x.next = x.next.Add(x.every); !x.next.After(now) {
			x.next = now.Add(x.every)
		}
		if out == nil {
			out = map[string]bool{}
		}
		out[uid] = true
	}
	return out
}

// sendFast exports the pods that request more frequent exports.
func (a *Agent) sendFast(ctx context.Context, sinks []Sink, failing []bool) {
	if a.pods == nil {
		return
	}
	r, now := &a.rates, a.now()
	r.setPods(a.pods.List(), a.config.Export, now)
	a.warnRates()
	due := r.duePods(now)
	if len(due) == 0 {
		return
	}
	r.batch.Reset(now)
	a.ledger.ExportFast(&r.batch, func(f *workload.ContainerFacts) bool { return due[f.UID] })
	if len(r.batch.Samples) > 0 {
		a.sendBatch(ctx, &r.batch, sinks, failing)
	}
}

// warnRates reports requests for frequent exports that cannot be met.
func (a *Agent) warnRates() {
	r := &a.rates
	if r.left == 0 && !r.noted {
		return
	}
	r.noted = true
	var err error
	if r.left > 0 {
		err = sensor.Unavailable(fmt.Sprintf("%d pods ask by %s to be exported faster, beyond the %d of a node", r.left, rateAnnotation,
			maxFastPods), "measure fewer at once on a node, or with a sidecar", nil)
	}
	a.recordResult("pod-rate", err)
}
