package kubelet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Intervals of queries to the kubelet.
const (
	// Interval is between two questions without a reason.
	Interval = 30 * time.Second
	// transientInterval is the interval while a container is in a transient state.
	transientInterval = 5 * time.Second
	// minQueryInterval is the minimum interval between two queries for an unknown pod or container.
	minQueryInterval = time.Second
	// maxTries is the maximum number of queries for one reason, because a removed pod never appears.
	maxTries = 6
	// maxReasons bounds the reasons that are remembered.
	maxReasons = 10_000
)

var errNotQueried = errors.New("the kubelet was not asked yet")

// Cache keeps the pods of this node. It queries the kubelet every [Interval], every 5 s while a container is about to
// be restarted, and within a second after a request for an unknown pod. If the kubelet does not respond, Cache keeps
// the last list and slows down to one query per interval.
type Cache struct {
	client  *Client
	devices *DeviceLister // nil: no devices are queried
	wake    chan struct{}

	mu      sync.Mutex // guards the fields below
	pods    []*Pod
	byUID   map[string]*Pod
	reasons map[string]*queryReason
	version uint64        // of the answers, whole or not
	changed chan struct{} // closed by the next answer
	err     error
	// given are the devices of containers by the last answer, givenErr the reason why there was
	// none. Both are nil while no pod needs devices.
	given    map[containerName][]Device
	givenErr error
	unlisted unlistedPods
	// links are those to logs of containers as of linksRead.
	links     *logLinks
	linksRead time.Time
	synced    bool // the last whole answer had pods of the API server

	cancel context.CancelFunc
	done   chan struct{}
}

// queryReason is the reason for an additional query to the kubelet.
type queryReason struct {
	answers uint64 // whole answers since it came up
	idle    uint64 // answers since the query was last brought forward
}

// NewCache starts to query the kubelet with c. If d is not nil, it also queries the devices of pods. root is the mount point of the
// node's file tree. Log folders in it name pods that the kubelet no longer lists. The caller must call Close to stop the queries.
func NewCache(c *Client, d *DeviceLister, root string) *Cache {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Cache{
		client: c, devices: d, wake: make(chan struct{}, 1), byUID: map[string]*Pod{}, reasons: map[string]*queryReason{},
		changed: make(chan struct{}), err: errNotQueried, cancel: cancel, done: make(chan struct{}),
		unlisted: unlistedPods{root: root, was: map[string]removedPod{}, named: map[string]*Pod{}},
	}
	go s.run(ctx)
	return s
}

// Close stops the queries.
func (s *Cache) Close() error {
	s.cancel()
	<-s.done
	s.client.Close()
	if s.devices != nil {
		s.devices.Close()
	}
	return nil
}

// URL returns the address of the kubelet.
func (s *Cache) URL() string { return s.client.URL() }

// Pod returns the cached pod with the UID that control group names contain. It does not block. For an unknown pod it
// returns nil and requests a query. A pod that is no longer listed, or was deleted before the first query, has Unlisted
// set.
func (s *Cache) Pod(uid string) *Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byUID[uid]; p != nil {
		if p.isStarting() {
			p = s.updateStarted(p)
		}
		return p
	}
	return s.unlisted.findPod(uid, int(s.request(uid)), s.synced)
}

// List returns the pods that are known. The caller must not change the slice.
func (s *Cache) List() []*Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods
}

// Refresh requests an early query because the caller expects a change. why is any text that identifies the reason. Each
// reason causes only a few queries.
func (s *Cache) Refresh(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request(reason)
}

// request requests an early query for a reason, and returns the number of complete answers since that reason came up.
func (s *Cache) request(reason string) uint64 {
	r := s.reasons[reason]
	if r == nil {
		if len(s.reasons) >= maxReasons {
			return 0
		}
		r = &queryReason{}
		s.reasons[reason] = r
	}
	r.idle = 0
	if r.answers < maxTries {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return r.answers
}

// Err returns the error of the last query, or nil if its answer was complete.
func (s *Cache) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// DevicesErr returns the reason why the devices of pods are unknown. It returns nil if they are known or no pod has any.
func (s *Cache) DevicesErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.givenErr
}

// Asked reports whether the first query was answered or refused.
func (s *Cache) Asked() bool { return !errors.Is(s.Err(), errNotQueried) }

// Next waits until the kubelet has answered and the version of the answer is later than the given one, or until ctx ends. A version of 0
// accepts any answer. It returns the known pods with their version, and an error if pods may be missing.
func (s *Cache) Next(ctx context.Context, version uint64) (pods []*Pod, now uint64, err error) {
	for {
		s.mu.Lock()
		pods, now, err = s.pods, s.version, s.err
		changed := s.changed
		s.mu.Unlock()
		if now > version {
			return pods, now, err
		}
		select {
		case <-ctx.Done():
			return pods, now, ctx.Err()
		case <-changed:
		}
	}
}

// Await waits up to limit for the first answer about requested pods, if a query is due. It reports whether the answer
// arrived. If the last query failed, it returns at once.
func (s *Cache) Await(ctx context.Context, limit time.Duration) (answered bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s.mu.Lock()
		wait, changed := s.err == nil && s.hasUnansweredPod(), s.changed
		s.mu.Unlock()
		if !wait {
			return answered
		}
		select {
		case <-ctx.Done():
			return answered
		case <-changed:
			answered = true
		}
	}
}

// hasUnansweredPod reports whether a requested pod was in no answer yet. The caller holds the lock.
func (s *Cache) hasUnansweredPod() bool {
	for why, r := range s.reasons {
		if r.answers == 0 && s.byUID[why] == nil && !strings.Contains(why, "/") {
			return true
		}
	}
	return false
}

func (s *Cache) run(ctx context.Context) {
	defer close(s.done)
	pause := minQueryInterval
	for {
		began := time.Now()
		pods, err := s.client.Pods(ctx)
		if ctx.Err() != nil {
			return
		}
		s.addDevices(ctx, pods)
		s.update(pods, err)
		if pause = min(2*pause, Interval); err == nil {
			pause = minQueryInterval
		}
		next := Interval
		if err == nil && slices.ContainsFunc(pods, (*Pod).awaitsRestart) {
			next = transientInterval
		}
		if !s.waitForQuery(ctx, began, pause, next) {
			return
		}
	}
}

// addDevices sets the devices of newly read pods. If the query for devices fails, it uses the devices of the last successful
// query, because the devices of a pod do not change.
func (s *Cache) addDevices(ctx context.Context, pods []*Pod) {
	var given map[containerName][]Device
	var err error
	if s.devices != nil && slices.ContainsFunc(pods, func(p *Pod) bool { return p.NeedsDevices }) {
		given, err = s.devices.listDevices(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.givenErr = err; err == nil {
		s.given = given
	}
	for _, p := range pods {
		for i := range p.Containers {
			p.Containers[i].Devices = s.given[containerName{p.Namespace, p.Name, p.Containers[i].Name}]
		}
	}
}

// waitForQuery waits for the interval, or less if an early query is requested. It waits at least for pause since the last query began.
func (s *Cache) waitForQuery(ctx context.Context, began time.Time, pause, interval time.Duration) bool {
	next := time.NewTimer(time.Until(began.Add(interval)))
	defer next.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-next.C:
		return true
	case <-s.wake:
	}
	soon := time.NewTimer(time.Until(began.Add(pause)))
	defer soon.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-soon.C:
	}
	select { // includes requests that arrived meanwhile
	case <-s.wake:
	default:
	}
	return true
}

// update stores an answer. A truncated answer only adds pods and removes none.
func (s *Cache) update(pods []*Pod, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pods {
		p.copyPreviousEnds(s.byUID[p.UID])
	}
	before := s.byUID
	if err == nil {
		s.byUID = map[string]*Pod{}
		s.pods = pods
		s.synced = slices.ContainsFunc(pods, func(p *Pod) bool { return !p.Static })
		for why, r := range s.reasons {
			r.answers++
			if r.idle++; r.idle > 2*maxTries {
				delete(s.reasons, why)
			}
		}
	} else if len(pods) > 0 {
		s.pods = mergePods(s.pods, pods)
	}
	for _, p := range s.pods {
		s.byUID[p.UID], s.byUID[p.ReportedUID] = p, p
	}
	s.err = err
	s.version++
	if err == nil {
		s.unlisted.keepMissing(before, s.byUID, s.version)
		s.unlisted.readFolders(s.missingUIDs(), pods)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// missingUIDs returns the UIDs of requested pods that were in no answer. Other reasons for a query contain a slash.
func (s *Cache) missingUIDs() map[string]bool {
	out := map[string]bool{}
	for why := range s.reasons {
		if _, was := s.unlisted.was[why]; !was && s.byUID[why] == nil && !strings.Contains(why, "/") {
			out[why] = true
		}
	}
	return out
}

// copyPreviousEnds copies the previous end of each container from the old state of the pod. The kubelet forgets that end once
// the runtime has removed the container, which may happen before the restart.
func (p *Pod) copyPreviousEnds(old *Pod) {
	if old == nil {
		return
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Ended == nil || c.Before != nil || c.Running || c.Waiting != "" {
			continue
		}
		for j := range old.Containers {
			switch o := &old.Containers[j]; {
			case o.Name != c.Name || o.Ended == nil:
			case o.Ended.ID == c.Ended.ID:
				c.Before = o.Before
			default:
				c.Before = o.Ended
			}
		}
	}
}

// mergePods returns old with newer pods in place of the old ones.
func mergePods(old, newer []*Pod) []*Pod {
	out, seen := append([]*Pod(nil), newer...), map[string]bool{}
	for _, p := range newer {
		seen[p.ReportedUID] = true
	}
	for _, p := range old {
		if !seen[p.ReportedUID] {
			out = append(out, p)
		}
	}
	return out
}
