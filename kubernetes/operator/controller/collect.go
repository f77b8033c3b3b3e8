package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
	"reckon/kubernetes/operator/metricset"
	reckon "reckon/web/client"
)

// Collector reads the probes of pods and stores their measurements in runs. A probe discards samples only after they
// are stored, so that a restarted operator can read them again. It is safe for concurrent use.
type Collector struct {
	Runs Runs
	Port int32
	Log  *slog.Logger
	// Flush is the time after which samples are kept at the latest; 10 s if 0.
	Flush time.Duration
	// Address returns the address of a pod's probe; nil selects the pod's own address and Port.
	Address func(*core.Pod) string
	// ReadLog returns the end of the log of a container; nil keeps none.
	ReadLog func(ctx context.Context, pod types.NamespacedName, container string) (string, error)

	ctx  context.Context // of all readers; set by Start
	mu   sync.Mutex
	pods map[types.UID]*podReader
	seen map[types.UID]podView
	// begun holds the runs that are known to be stored, by their set.
	begun map[types.NamespacedName]string
}

// podView is the latest that is known of a pod of a set, whether it has a probe or not.
type podView struct {
	set    types.NamespacedName
	record Pod
	// program is the container whose log is the result; empty if there is none.
	program string
	taken   int64     // samples that its probe took, by the summary of its container; 0 until that ends
	first   time.Time // when it was seen first with a node
}

// podReader reads the probe of one pod.
type podReader struct {
	set, pod types.NamespacedName
	run      types.NamespacedName
	wanted   int64
	mu       sync.Mutex
	count    int64
	last     time.Time
	trouble  string
	over     bool               // the pod has ended
	gone     bool               // it was deleted before that
	leave    context.CancelFunc // cancels the reading of a deleted pod
	done     chan struct{}
	stop     context.CancelFunc
}

// Start keeps the context of the manager; it returns when that ends and all readers have.
func (c *Collector) Start(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pods {
		<-r.done
	}
	return nil
}

// Begin stores that a run has begun. It does so once for each run of this operator.
func (c *Collector) Begin(ctx context.Context, ms *v1alpha2.MetricSet, set *metricset.Set) error {
	key, run := types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}, runKey(ms)
	c.mu.Lock()
	done := c.begun[key] == run.Name
	c.mu.Unlock()
	if done {
		return nil
	}
	if err := c.Runs.Begin(ctx, run, ms, set); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == nil {
		c.begun = map[types.NamespacedName]string{}
	}
	c.begun[key] = run.Name
	return nil
}

func runKey(ms *v1alpha2.MetricSet) types.NamespacedName {
	return types.NamespacedName{Namespace: ms.Namespace, Name: runName(ms)}
}

// Observe stores the facts of a pod, and starts to read the probe of the pod once the probe runs.
func (c *Collector) Observe(ctx context.Context, ms *v1alpha2.MetricSet, set *metricset.Set, p *core.Pod) {
	status := probeStatus(p, c.Port)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil {
		return
	}
	if c.seen == nil {
		c.seen = map[types.UID]podView{}
	}
	job := metricOfPod(p, set)
	var m *metricset.Measure
	if i := slices.IndexFunc(set.Metrics, func(m metricset.Measure) bool { return m.Job == job }); i >= 0 {
		m = &set.Metrics[i]
	}
	first := c.seen[p.UID].first
	if first.IsZero() && p.Spec.NodeName != "" {
		first = time.Now()
	}
	record, taken := newPodRecord(p, job, c.Port)
	c.seen[p.UID] = podView{types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}, record, logContainer(p, m), taken, first}
	r := c.pods[p.UID]
	ended := p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed || status != nil && status.State.Terminated != nil
	if r != nil {
		r.mu.Lock()
		r.over = r.over || ended
		r.mu.Unlock()
		return
	}
	if status == nil || status.State.Running == nil || p.Status.PodIP == "" || ended {
		return
	}
	address := net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(c.Port)))
	if c.Address != nil {
		address = c.Address(p)
	}
	readCtx, stop := context.WithCancel(c.ctx)
	pageCtx, leave := context.WithCancel(readCtx)
	r = &podReader{set: types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name},
		pod: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, run: runKey(ms), done: make(chan struct{}), stop: stop,
		leave: leave}
	for _, m := range set.Metrics {
		if m.Job == metricOfPod(p, set) {
			r.wanted = m.Values.Int("completions")
		}
	}
	if c.pods == nil {
		c.pods = map[types.UID]*podReader{}
	}
	c.pods[p.UID] = r
	go func() {
		defer close(r.done)
		defer stop()
		c.readProbe(readCtx, pageCtx, r, record, address)
	}()
}

// Gone ends the reading of a pod that was deleted before it ended, because another pod may soon have its address.
func (c *Collector) Gone(uid types.UID) {
	c.mu.Lock()
	r := c.pods[uid]
	c.mu.Unlock()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone = !r.over; r.gone {
		r.leave()
	}
}

// metricOfPod returns the name of the metric that a pod is measured by.
func metricOfPod(p *core.Pod, set *metricset.Set) string {
	if job := p.Labels[jobs.LabelMetric]; job != "" && p.Labels[jobs.LabelManaged] == jobs.Manager {
		return job
	}
	for _, m := range set.Metrics {
		if m.Attach == metricset.AttachEphemeral {
			return m.Job
		}
	}
	return ""
}

// probeStatus returns the status of the container that serves samples, or nil if the pod has none.
func probeStatus(p *core.Pod, port int32) *core.ContainerStatus {
	name := ""
	for _, containers := range [][]core.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, con := range containers {
			if slices.ContainsFunc(con.Ports, func(q core.ContainerPort) bool { return q.Name == "probe" && q.ContainerPort == port }) {
				name = con.Name
			}
		}
	}
	for _, statuses := range [][]core.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == name || strings.HasPrefix(statuses[i].Name, jobs.ProbeContainer+"-") {
				return &statuses[i]
			}
		}
	}
	return nil
}

// podDeleted is the remark in a run about a pod that was deleted before it ended.
const podDeleted = "the pod was deleted before its end, as when its node is drained"

// readProbe reads a probe to its end, or until pageCtx ends.
func (c *Collector) readProbe(ctx, pageCtx context.Context, r *podReader, record Pod, address string) {
	kept, err := c.Runs.Pod(ctx, r.run, record)
	for ; err != nil; kept, err = c.Runs.Pod(ctx, r.run, record) {
		r.setProblem("the run cannot be kept: " + err.Error())
		if !sleepFor(ctx, time.Second) {
			return
		}
	}
	r.setProgress(kept.Samples, kept.Last)
	web := &http.Client{Timeout: 45 * time.Second,
		Transport: &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, DisableCompression: true}}
	defer web.CloseIdleConnections()
	b := sampleBatch{offset: kept.Offset, start: kept.Start, have: kept.Samples - kept.Offset, kept: kept.Samples - kept.Offset}
	misses := 0
	for ctx.Err() == nil {
		page, err := fetchPage(pageCtx, web, address, b.have, b.kept, b.waitTime(c.flushInterval()))
		if r.isGone() {
			b.broken, b.news = cmp.Or(b.broken, podDeleted), true
			if c.saveSamples(ctx, r, record, &b) || !sleepFor(ctx, time.Second) {
				return
			}
			continue
		}
		if err != nil {
			misses++
			if r.isOver() || misses > 120 {
				c.saveSamples(ctx, r, record, &b) // keep the samples that were read before the pod was deleted
				return
			}
			if misses > 10 {
				r.setProblem(fmt.Sprintf("the probe of %s does not answer: %v", r.pod.Name, err))
			}
			sleepFor(ctx, 250*time.Millisecond)
			continue
		}
		misses = 0
		r.setProblem("")
		b.addPage(page, r.wanted)
		r.setProgress(b.offset+b.have, b.lastTo)
		if b.isDue(c.flushInterval()) {
			if !c.saveSamples(ctx, r, record, &b) {
				sleepFor(ctx, time.Second)
				continue
			}
		}
		if page.Ended && b.have >= page.Last && len(b.samples) == 0 {
			_, _ = fetchPage(ctx, web, address, b.have, b.kept, 0) // so the probe knows, and ends
			return
		}
	}
}

func (c *Collector) flushInterval() time.Duration {
	if c.Flush > 0 {
		return c.Flush
	}
	return 10 * time.Second
}

// saveSamples writes the samples to the run.
func (c *Collector) saveSamples(ctx context.Context, r *podReader, record Pod, b *sampleBatch) bool {
	if len(b.samples) == 0 && !b.news {
		return true
	}
	if err := c.Runs.Add(ctx, r.run, record, b); err != nil {
		r.setProblem("samples cannot be kept yet: " + err.Error())
		return false
	}
	b.samples, b.kept, b.news, b.since = nil, b.have, false, time.Time{}
	return true
}

func (r *podReader) setProblem(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = text
}

func (r *podReader) setProgress(count int64, last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count, r.last = count, last
}

func (r *podReader) isGone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

func (r *podReader) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// Count returns the number of samples of a pod that were read, and the time of the last; nil for a pod without a probe.
func (c *Collector) Count(uid types.UID) (*int64, *metav1.Time) {
	c.mu.Lock()
	r := c.pods[uid]
	c.mu.Unlock()
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.count
	if r.last.IsZero() {
		return &n, nil
	}
	return &n, &metav1.Time{Time: r.last.Truncate(time.Second)}
}

// firstSeen returns the time when a pod was first seen with a node.
func (c *Collector) firstSeen(uid types.UID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[uid].first
}

// readersOf returns the readers of a set.
func (c *Collector) readersOf(set types.NamespacedName) (out []*podReader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pods {
		if r.set == set {
			out = append(out, r)
		}
	}
	return out
}

// Reads reports whether probes of a set are being read.
func (c *Collector) Reads(set types.NamespacedName) bool {
	for _, r := range c.readersOf(set) {
		select {
		case <-r.done:
		default:
			return true
		}
	}
	return false
}

// Trouble returns the reason why a probe of a set cannot be read.
func (c *Collector) Trouble(ms *v1alpha2.MetricSet) string {
	for _, r := range c.readersOf(types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}) {
		r.mu.Lock()
		text := r.trouble
		r.mu.Unlock()
		if text != "" {
			return text
		}
	}
	return ""
}

// End waits until the data of a set's probes is stored, and ends its run.
func (c *Collector) End(ctx context.Context, ms *v1alpha2.MetricSet, outcome string) error {
	key := types.NamespacedName{Namespace: ms.Namespace, Name: ms.Name}
	for _, r := range c.readersOf(key) {
		r.mu.Lock()
		r.over = true
		r.mu.Unlock()
		select {
		case <-r.done:
		case <-time.After(15 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := c.Runs.End(ctx, runKey(ms), outcome, ms.Status.Pods, c.recordsWithLogs(ctx, runKey(ms), key)); err != nil {
		return err
	}
	c.dropReaders(key)
	return nil
}

// Forget ends the run of a set that was deleted, when its probes have been read.
func (c *Collector) Forget(set types.NamespacedName) {
	readers := c.readersOf(set)
	if len(readers) == 0 {
		c.dropReaders(set)
		return
	}
	go func() {
		for _, r := range readers {
			r.mu.Lock()
			r.over = true
			r.mu.Unlock()
			<-r.done
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Runs.End(ctx, readers[0].run, "Deleted", nil, c.podRecords(set)); err != nil {
			c.Log.Warn("end the run of a deleted set", "set", set, "error", err)
		}
		c.dropReaders(set)
	}()
}

// podRecords returns the latest known records of the pods of a set.
func (c *Collector) podRecords(set types.NamespacedName) (out []Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seen {
		if s.set == set {
			out = append(out, s.record)
		}
	}
	return out
}

// recordsWithLogs returns the records of the pods of a set with the logs of their programs, because the logs are deleted with
// the pods. A record includes the number of samples that were not read in time.
func (c *Collector) recordsWithLogs(ctx context.Context, run, set types.NamespacedName) []Pod {
	programs, taken := map[string]string{}, map[string]int64{}
	c.mu.Lock()
	for _, s := range c.seen {
		if s.set == set {
			programs[s.record.UID], taken[s.record.UID] = s.program, s.taken
		}
	}
	c.mu.Unlock()
	records := c.podRecords(set)
	for i := range records {
		p := &records[i]
		if n := taken[p.UID]; n > 0 {
			if kept, err := c.Runs.Pod(ctx, run, *p); err == nil && kept.Samples-kept.Offset < n {
				p.Incomplete = fmt.Sprintf("%d of %d samples were not read before the probe ended", n-kept.Samples+kept.Offset, n)
			}
		}
		if c.ReadLog == nil || programs[p.UID] == "" {
			continue
		}
		text, err := c.ReadLog(ctx, types.NamespacedName{Namespace: set.Namespace, Name: p.Name}, programs[p.UID])
		if err != nil {
			p.Incomplete = "its log could not be read: " + err.Error()
			continue
		}
		p.Log = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\r\n", "\n") // of a terminal
	}
	return records
}

func (c *Collector) dropReaders(set types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, set)
	for uid, r := range c.pods {
		if r.set == set {
			r.stop()
			delete(c.pods, uid)
		}
	}
	for uid, s := range c.seen {
		if s.set == set {
			delete(c.seen, uid)
		}
	}
}

// fetchPage sends a request to a probe.
func fetchPage(ctx context.Context, web *http.Client, address string, after, kept int64, wait time.Duration) (page reckon.ProbePage,
	err error) {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "kept": {strconv.FormatInt(kept, 10)}, "wait": {wait.String()}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/samples?"+q.Encode(), nil)
	if err != nil {
		return page, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	const most = 64 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return page, err
	case resp.StatusCode != http.StatusOK:
		return page, fmt.Errorf("%s: %s", resp.Status, shortenMessage(string(body)))
	case len(body) > most:
		return page, fmt.Errorf("an answer of more than %d MiB", most>>20)
	}
	return page, json.Unmarshal(body, &page)
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
