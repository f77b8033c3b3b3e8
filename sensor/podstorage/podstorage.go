// Package podstorage measures the storage of pods on a node. It measures volumes with their own file system by
// statfs(2), and volumes in a folder of the node's disk, logs and writable layers of containers by walking them like
// du(1). It only needs the right to read folders (CAP_DAC_READ_SEARCH) and does not query the kubelet.
//
//	DIR/pods/UID/volumes/PLUGIN/NAME[/mount]     volumes, DIR is the kubelet's folder (pkg/kubelet/kubelet_getters.go of Kubernetes)
//	/var/log/pods/NAMESPACE_POD_UID/CONTAINER    logs (pkg/kubelet/kuberuntime)
//	/proc/PID/mountinfo: upperdir of /           writable layer (Documentation/filesystems/overlayfs.rst)
//
// Amounts are bytes on disk, blocks of 512 bytes as stat(2) counts them; a file with several links in one folder counts
// once. A [Reader] measures in the background, because a file server may not answer and folders may be large, and uses
// at most 0.05 % of a core. It is safe for concurrent use.
package podstorage

import (
	"context"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// minRoundInterval is between two rounds, at least.
	minRoundInterval = time.Minute
	// pauseFactor is the wait before the next round, in multiples of the processor time of one.
	pauseFactor = 2000
	// maxFiles bounds a walk: a folder with more is not measured.
	maxFiles = 50_000
	// maxAge is the number of rounds for which an old measurement is still returned.
	maxAge = 3
)

// Pod is a pod to measure.
type Pod struct {
	// UID is the UID of its folder, which its control groups have too.
	UID             string
	Namespace, Name string
	Containers      []Container
}

// Container is a running container of a pod.
type Container struct {
	Name string
	PID  int32  // PID is the id of any process in the pod.
	ID   string // that its runtime gave it, "" if unknown
}

// Amount is a measurement of a pod, in bytes.
type Amount struct {
	Kind Kind
	// Name is the name of the volume's folder (of a claim the PersistentVolume's) or of the container.
	Name string
	// Plugin of a volume, such as empty-dir or csi.
	Plugin string
	Used   uint64
	// Capacity is the capacity of the volume's own file system, 0 if it has none.
	Capacity uint64
}

// Kind is the kind of storage of an amount.
type Kind int

// Kinds of storage.
const (
	Volume Kind = iota
	WritableLayer
	Logs
)

// Reader measures pods.
type Reader struct {
	tree  podTree
	layer layerIDs // used by the rounds alone
	wake  chan struct{}
	asked map[string]*statfsCall // used by the rounds alone

	mu      sync.Mutex // guards the fields below
	pods    []Pod
	amounts map[string]podResult
	err     error

	cancel context.CancelFunc
	done   chan struct{}
}

// podResult holds the measurements of a pod from one round.
type podResult struct {
	list []Amount
	at   time.Time
	good time.Duration // for how long it is given
}

// New starts to measure the storage of the machine's pods. root is the mount point of the machine's file tree ("/" if
// empty), and folder is the directory of the kubelet. The caller must call Close.
func New(root, folder string) *Reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reader{
		tree: newTree(root, folder), wake: make(chan struct{}, 1), amounts: map[string]podResult{}, asked: map[string]*statfsCall{},
		cancel: cancel, done: make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// Close ends the measuring. A question to a file system that does not answer stays behind in the kernel.
func (r *Reader) Close() error {
	r.cancel()
	<-r.done
	return nil
}

// Set replaces the list of current pods. New ones are measured at the reader's pace.
func (r *Reader) Set(pods []Pod) {
	r.mu.Lock()
	r.pods = pods
	r.mu.Unlock()
	if len(pods) == 0 {
		return
	}
	select { // the first round waits for it, the others for their time
	case r.wake <- struct{}{}:
	default:
	}
}

// Amounts returns the latest measurements of a pod; the caller must not change them.
func (r *Reader) Amounts(uid string) []Amount {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.amounts[uid]
	if time.Since(a.at) > a.good {
		return nil
	}
	return a.list
}

// Err returns an error that describes the failed measurements of the last round, or nil.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Reader) run(ctx context.Context) {
	defer close(r.done)
	runtime.LockOSThread() // its time is the time of the rounds
	defer runtime.UnlockOSThread()
	select {
	case <-ctx.Done():
		return
	case <-r.wake:
	}
	for {
		next := time.NewTimer(r.measureRound(ctx))
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
		}
	}
}

// threadTime returns the processor time that this thread has used (clock_gettime(2)).
func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// measureRound measures the storage of every pod and returns the delay until the next round. The delay is a multiple of the
// CPU time of the round, not of its duration, because on a busy machine a round mostly waits for a processor.
func (r *Reader) measureRound(ctx context.Context) time.Duration {
	began := threadTime()
	r.mu.Lock()
	pods := r.pods
	r.mu.Unlock()
	mounts, err := r.tree.mounts()
	found := map[string][]Amount{}
	r.layer.beginRound()
	for i := range pods {
		if ctx.Err() != nil {
			return minRoundInterval
		}
		list, perr := r.measurePod(&pods[i], mounts[pods[i].UID])
		found[pods[i].UID] = list
		if err == nil {
			err = perr
		}
	}
	now := time.Now()
	next := max(minRoundInterval, pauseFactor*(threadTime()-began))
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.amounts)
	for uid, list := range found {
		r.amounts[uid] = podResult{list, now, maxAge * next}
	}
	r.err = err
	return next
}

// measurePod measures one pod. err describes the failed measurements.
func (r *Reader) measurePod(p *Pod, mounted []mount) (list []Amount, err error) {
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	own := map[string]bool{}
	for _, m := range mounted {
		own[m.plugin+"/"+m.name] = true
		s, serr := r.queryStatfs(m)
		if note(serr); serr == nil {
			list = append(list, Amount{Kind: Volume, Name: m.name, Plugin: m.plugin, Used: s.used, Capacity: s.capacity})
		}
	}
	for _, f := range append(r.tree.podFolders(p, own), r.tree.writableLayers(p, &r.layer)...) {
		used, werr := f.measure()
		if note(werr); werr == nil {
			f.Used = used
			list = append(list, f.Amount)
		}
	}
	return list, err
}
