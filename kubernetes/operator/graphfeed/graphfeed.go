// Package graphfeed describes a Kubernetes cluster in the knowledge graph of a reckon server: each Deployment,
// StatefulSet, DaemonSet, Job, CronJob, ReplicaSet, Pod and Node, and each JobSet if the cluster has them, is a
// subgraph. It is written when the object is created, changes or is deleted.
//
// Objects are watched by informers that keep only the fields used in subgraphs. Rapid changes of one object are written
// as one, and unchanged subgraphs are not sent. A failed write is retried at growing intervals without delaying other
// objects. If a watch has to restart, the informers list all objects again and repair the differences.
//
// Pods without a node are also reported as samples, because no agent lists them.
package graphfeed

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"reckon/graph"
	"reckon/graph/own"
	"reckon/graph/telemetry"
)

// Options configures the sources and the destination.
type Options struct {
	Server    string // address of the server, such as https://reckon:9870
	TokenFile string // file of the token, read for each request because it changes; empty for none
	CAFile    string // CA certificates of the server; empty for those of the system
	Namespace string // look at this one only, and at no nodes; empty: all
	Base      string // of ids, as the server has it; empty is urn:reckon:
	Site      string // as the server calls the site of this cluster; empty if it has no sites
	Links     telemetry.Links
	Log       *slog.Logger
	// Delay is for how long changes of an object are collected before it is written; 0 is 250 ms.
	Delay time.Duration
}

// Feed writes the cluster into the graph. Run it once.
type Feed struct {
	o         Options
	v         vocabulary
	client    *remoteGraph
	queue     workqueue.TypedRateLimitingInterface[objectKey]
	informers map[string]cache.SharedIndexInformer

	mu      sync.Mutex
	written map[objectKey]sentState
	seed    maphash.Seed
	failing time.Time // since when the server takes nothing; zero while it does
}

// objectKey is an object of the cluster.
type objectKey struct{ kind, name string }

// sentState is the last description that was sent of an object.
type sentState struct {
	id   string
	hash uint64
}

// maxRequests is the number of concurrent requests. SQLite performs writes one after another, so more would only wait.
const maxRequests = 4

// New makes a feed of a cluster.
func New(config *rest.Config, o Options) (*Feed, error) {
	if o.Delay <= 0 {
		o.Delay = 250 * time.Millisecond
	}
	cluster, err := newClients(config)
	if err != nil {
		return nil, err
	}
	c, err := newRemote(o)
	if err != nil {
		return nil, err
	}
	f := &Feed{
		o: o, client: c, v: vocabulary{Vocabulary: own.Vocabulary{Base: o.Base, Site: o.Site}, links: o.Links, site: o.Site},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[objectKey](time.Second,
			time.Minute)),
		informers: map[string]cache.SharedIndexInformer{}, written: map[objectKey]sentState{}, seed: maphash.MakeSeed(),
	}
	for _, r := range resources() {
		if o.Namespace != "" && !r.namespaced {
			continue
		}
		if served, err := r.isServed(cluster); err != nil {
			return nil, err
		} else if !served {
			continue
		}
		if err := f.watchResource(cluster, r); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *Feed) watchResource(c *clients, r resource) error {
	i := cache.NewSharedIndexInformer(r.listerWatcher(c, f.o.Namespace, f.o.Log), r.example, 0, cache.Indexers{})
	if err := i.SetTransform(r.newTransform(f.o.Log)); err != nil {
		return err
	}
	changed := func(o any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			f.queue.AddAfter(objectKey{r.kind, name}, f.o.Delay)
		}
	}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed,
		UpdateFunc: func(before, now any) {
			if a, ok := before.(*objectRecord); ok && a.ResourceVersion == now.(*objectRecord).ResourceVersion &&
				a.UID == now.(*objectRecord).UID {
				return // a relist
			}
			changed(now)
		},
	})
	f.informers[r.kind] = i
	return err
}

// Run writes until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	defer f.queue.ShutDown()
	var all sync.WaitGroup
	defer all.Wait()
	var synced []cache.InformerSynced
	for _, i := range f.informers {
		synced = append(synced, i.HasSynced)
		all.Go(func() { i.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	for range maxRequests {
		all.Go(func() {
			for f.writeNext(ctx) {
			}
		})
	}
	all.Go(func() { f.deleteOrphans(ctx) })
	all.Go(func() { f.reportUnscheduled(ctx) })
	<-ctx.Done()
	f.queue.ShutDown()
	return nil
}

// writeNext writes one object. It returns false after the queue was shut down.
func (f *Feed) writeNext(ctx context.Context) bool {
	k, down := f.queue.Get()
	if down {
		return false
	}
	defer f.queue.Done(k)
	err := f.writeObject(ctx, k)
	f.logOutage(ctx, err)
	switch {
	case err == nil || ctx.Err() != nil:
		f.queue.Forget(k)
	default:
		f.queue.AddRateLimited(k)
	}
	return true
}

// logOutage logs the first refusal by the server, and the first success after that.
func (f *Feed) logOutage(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && f.failing.IsZero() && ctx.Err() == nil:
		f.failing = time.Now()
		f.o.Log.Warn("the knowledge graph cannot be written; changes are kept and tried again", "error", err)
	case err == nil && !f.failing.IsZero():
		f.o.Log.Info("the knowledge graph is written again", "after", time.Since(f.failing).Round(time.Second))
		f.failing = time.Time{}
	}
}

// writeObject updates the subgraph of an object to the state in the informer.
func (f *Feed) writeObject(ctx context.Context, k objectKey) error {
	o, there, err := f.informers[k.kind].GetStore().GetByKey(k.name)
	if err != nil {
		return err
	}
	f.mu.Lock()
	last := f.written[k]
	f.mu.Unlock()
	var now sentState
	if there {
		s := f.v.subgraphOf(o.(*objectRecord))
		body := encodeQuads(s.quads)
		now = sentState{id: s.id, hash: maphash.Bytes(f.seed, body)}
		if now == last {
			return nil
		}
		if err := f.client.replaceSubgraph(ctx, s, body); err != nil {
			return err
		}
	}
	if last.id != "" && last.id != now.id { // it is gone, or another of its name is there
		if err := f.client.deleteSubgraph(ctx, last.id); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if there {
		f.written[k] = now
	} else {
		delete(f.written, k)
	}
	return nil
}

func encodeQuads(quads []graph.Quad) []byte {
	var b []byte
	for _, q := range quads {
		b = append(append(b, q.String()...), '\n')
	}
	return b
}

// deleteOrphans removes, once, subgraphs of deleted objects that an earlier run wrote.
func (f *Feed) deleteOrphans(ctx context.Context) {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		err := f.sweepOrphans(ctx)
		f.logOutage(ctx, err)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (f *Feed) sweepOrphans(ctx context.Context) error {
	ids, err := f.client.listSubgraphs(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, i := range f.informers {
		for _, o := range i.GetStore().List() {
			there[f.v.subgraphID(o.(*objectRecord))] = true
		}
	}
	var errs []error
	for _, id := range ids {
		if strings.HasPrefix(id, f.v.idPrefix()) && !there[id] && f.o.Namespace == "" {
			errs = append(errs, f.client.deleteSubgraph(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// statusError is an answer that is not 2xx.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the server answers %d %s: %s", e.code, http.StatusText(e.code), e.text)
}
