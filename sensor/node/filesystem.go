package node

import (
	"bytes"
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/metric"
)

// ignoredMounts and ignoredTypes match file systems without figures. These are the ones that node_exporter omits, and
// mounts of container runtimes, including the /dev/shm of each pod, which is part of the pod's memory. Pod volumes are
// omitted because package podstorage measures them.
var (
	ignoredMounts = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+|var/lib/kubelet/pods/.+|` +
				`run/(k3s/)?containerd/.+|run/containers/storage/.+)($|/)`)
	})
	ignoredTypes = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|fusectl|hugetlbfs|iso9660|mqueue|nsfs|overlay|proc|` +
				`procfs|pstore|rpc_pipefs|securityfs|selinuxfs|squashfs|sysfs|tracefs)$`)
	})
)

// remoteTypes matches the types of network file systems. If the server of such a file system does not respond,
// statfs(2) may block forever, and no signal interrupts it.
var remoteTypes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^(nfs.*|cifs|smb.*|ncp.*|9p|afs|ceph|lustre|gpfs|beegfs.*|glusterfs|orangefs|pvfs2|gfs2|ocfs2|wekafs|virtiofs|fuse.*)$`)
})

// maxRemoteWait is the time that one reading waits for all network file systems together.
const maxRemoteWait = 500 * time.Millisecond

var fsLabels = []string{"device", "mountpoint", "fstype"}

// fsDescs are in the order of [mount.series].
var fsDescs = []*metric.Desc{
	gauge("node_filesystem_device_error", "Whether an error occurred while getting statistics for the given device.", metric.None,
		fsLabels...),
	gauge("node_filesystem_readonly", "Filesystem read-only status.", metric.None, fsLabels...),
	gauge("node_filesystem_size_bytes", "Filesystem size in bytes.", metric.Bytes, fsLabels...),
	gauge("node_filesystem_free_bytes", "Filesystem free space in bytes.", metric.Bytes, fsLabels...),
	gauge("node_filesystem_avail_bytes", "Filesystem space available to non-root users in bytes.", metric.Bytes, fsLabels...),
	gauge("node_filesystem_files", "Filesystem total file nodes.", metric.None, fsLabels...),
	gauge("node_filesystem_files_free", "Filesystem total free file nodes.", metric.None, fsLabels...),
}

// mountsLeft are the mounts without series.
var mountsLeft = gauge("reckon_node_filesystems_left_out",
	"Mounted file systems without series, because root has more than 256 or a user more than 16. Nearly full ones always have "+
		"series. Absent when there are none.", metric.None)

// Filesystem is the capacity and use of each mounted file system.
type Filesystem struct {
	root   string
	text   *kernelFile
	last   []byte // the text of the parsed mounts
	mounts []*mount
	rest   []*mount // without series, since there are too many; none is distant
	left   int      // mounts without series, distant ones too
	others *metric.Series
	statfs func(path []byte, s *unix.Statfs_t) error
	wait   time.Duration
	answer unix.Statfs_t
}

// mount is one mounted file system.
type mount struct {
	device, point, fstype string
	user                  string // uid of the user who mounted it by FUSE; empty for root
	readonly              bool
	path                  []byte // ends in NUL
	series                [7]*metric.Series
	worker                *statfsWorker // for a distant one
}

// NewFilesystem opens the list of mounts below root, preferably that of the first process. Each network file system has
// its own goroutine. If it does not respond within half a second, it gets node_filesystem_device_error 1 and no
// figures. Later readings do not wait for it until it responds, so that it does not delay the other file systems.
func NewFilesystem(root string) (*Filesystem, error) {
	t, err := openFile(root, "proc/1/mounts")
	if err == nil {
		if _, unreadable := t.read(); unreadable != nil {
			err = errors.Join(unreadable, t.Close())
		}
	}
	if err != nil {
		if t, err = openFile(root, "proc/self/mounts"); err != nil {
			return nil, err
		}
	}
	return &Filesystem{root: strings.TrimSuffix(root, "/"), text: t, statfs: statfs, wait: maxRemoteWait}, nil
}

// Name returns "filesystem".
func (f *Filesystem) Name() string { return "filesystem" }

// Descs lists the figures.
func (f *Filesystem) Descs() []*metric.Desc { return append(slices.Clone(fsDescs), mountsLeft) }

// Close ends the goroutines that are not blocked and closes the file.
func (f *Filesystem) Close() error {
	f.setMounts(nil)
	return f.text.Close()
}

// Read appends every file system that is not left out.
func (f *Filesystem) Read(b *metric.Batch) error {
	t, err := f.text.read()
	if err != nil {
		return err
	}
	if !bytes.Equal(t, f.last) || f.mounts == nil {
		f.last = append(f.last[:0], t...)
		f.setMounts(parseMounts(t))
	}
	for _, m := range f.mounts {
		if m.worker != nil {
			m.worker.start()
		}
	}
	deadline := time.Now().Add(f.wait)
	for _, m := range f.mounts {
		ok := false
		if m.worker != nil {
			ok = m.worker.awaitResult(&f.answer, deadline)
		} else {
			ok = f.statfs(m.path, &f.answer) == nil
		}
		m.export(b, &f.answer, ok)
	}
	if f.left > 0 {
		if f.others == nil {
			f.others = metric.NewSeries(mountsLeft)
		}
		b.Add(f.others, float64(f.left-f.addFull(b)))
	}
	return nil
}

// A node can have thousands of mounts, and their series would use up the server's limit. Mounts of root come first,
// local ones before network file systems, and then a few of each user.
const (
	maxRootMounts = 256
	maxUserMounts = 16
	maxFullMounts = 64  // of the others, those that are nearly full
	fullThreshold = 0.1 // of the size is available
)

// addFull appends nearly full file systems without their own series, which alerts need, and returns their number.
func (f *Filesystem) addFull(b *metric.Batch) (n int) {
	for _, m := range f.rest {
		if n < maxFullMounts && f.statfs(m.path, &f.answer) == nil && f.answer.Blocks > 0 &&
			float64(f.answer.Bavail) < fullThreshold*float64(f.answer.Blocks) {
			m.createSeries()
			m.export(b, &f.answer, true)
			n++
		}
	}
	return n
}

// createSeries creates the series of a mount.
func (m *mount) createSeries() {
	if m.series[0] != nil {
		return
	}
	for k, d := range fsDescs {
		m.series[k] = metric.NewSeries(d, labelValue([]byte(m.device)), labelValue([]byte(m.point)), labelValue([]byte(m.fstype)))
	}
}

// limitMounts returns the mounts that have series, and the remaining local ones.
func limitMounts(list []*mount) (kept, rest []*mount, left int) {
	if len(list) <= maxUserMounts {
		return list, nil, 0
	}
	slices.SortStableFunc(list, func(a, b *mount) int { return cmp.Compare(a.rank(), b.rank()) })
	of := map[string]int{}
	for _, m := range list {
		most := maxUserMounts
		if m.user == "" {
			most = maxRootMounts
		}
		if of[m.user]++; of[m.user] <= most {
			kept = append(kept, m)
			continue
		}
		left++
		if !remoteTypes().MatchString(m.fstype) {
			rest = append(rest, m)
		}
	}
	return kept, rest, left
}

// rank returns the priority of a mount when the number of series is limited; lower is first.
func (m *mount) rank() int {
	switch {
	case m.user != "":
		return 3
	case remoteTypes().MatchString(m.fstype):
		return 2
	case m.point == "/" || strings.HasPrefix(m.device, "/dev/"):
		return 0
	}
	return 1 // a file system of many in one pool, or in memory
}

func (m *mount) export(b *metric.Batch, s *unix.Statfs_t, ok bool) {
	if !ok {
		b.Add(m.series[0], 1)
		return
	}
	readonly := 0.0
	if m.readonly {
		readonly = 1
	}
	size := float64(s.Bsize)
	for i, v := range [7]float64{
		0, readonly, float64(s.Blocks) * size, float64(s.Bfree) * size, float64(s.Bavail) * size, float64(s.Files), float64(s.Ffree),
	} {
		b.Add(m.series[i], v)
	}
}

// setMounts sets a new list of mounts. Mounts in both lists keep their series.
func (f *Filesystem) setMounts(list []*mount) {
	kept, seen := list[:0], make(map[[3]string]bool, len(list))
	for _, m := range list {
		if !seen[m.key()] && !ignoredMounts().MatchString(m.point) && !ignoredTypes().MatchString(m.fstype) {
			seen[m.key()] = true
			kept = append(kept, m)
		}
	}
	kept, f.rest, f.left = limitMounts(kept)
	clear(seen)
	for _, m := range kept {
		seen[m.key()] = true
	}
	for _, m := range f.rest {
		m.path = append([]byte(f.root+m.point), 0)
	}
	before := make(map[[3]string]*mount, len(f.mounts))
	for _, old := range f.mounts {
		before[old.key()] = old
	}
	for i, m := range kept {
		if old := before[m.key()]; old != nil {
			old.readonly = m.readonly
			kept[i] = old
			continue
		}
		m.path = append([]byte(f.root+m.point), 0)
		m.createSeries()
		if remoteTypes().MatchString(m.fstype) {
			m.worker = newWorker(f.statfs, m.path)
		}
	}
	for _, old := range f.mounts {
		if !seen[old.key()] && old.worker != nil {
			old.worker.close()
		}
	}
	f.mounts = kept
}

// key identifies one mount among lines of the list.
func (m *mount) key() [3]string { return [3]string{m.device, m.point, m.fstype} }

// statfsWorker queries one network file system in a goroutine that may stay blocked in the kernel forever.
type statfsWorker struct {
	question chan struct{}
	done     chan struct{}
	pending  bool // queried, and no result taken yet
	late     bool // did not respond to an earlier query in time
	s        unix.Statfs_t
	err      error
	timer    *time.Timer
}

func newWorker(statfs func([]byte, *unix.Statfs_t) error, path []byte) *statfsWorker {
	w := &statfsWorker{question: make(chan struct{}, 1), done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	go func() {
		for range w.question {
			w.err = statfs(path, &w.s)
			w.done <- struct{}{}
		}
	}()
	return w
}

// start starts a query unless one is still running.
func (w *statfsWorker) start() {
	if w.pending {
		select {
		case <-w.done: // too late for the reading that started it
		default:
			return
		}
	}
	w.pending, w.late = true, false
	w.question <- struct{}{}
}

// awaitResult waits until deadline for the result of the query and stores it in s. If an earlier reading has already waited
// in vain, it returns false at once.
func (w *statfsWorker) awaitResult(s *unix.Statfs_t, deadline time.Time) bool {
	if w.late {
		return false
	}
	w.timer.Reset(time.Until(deadline))
	select {
	case <-w.done:
		w.pending = false
		*s = w.s
		return w.err == nil
	case <-w.timer.C:
		w.late = true
		return false
	}
}

// close ends the goroutine, at once or after its query.
func (w *statfsWorker) close() {
	close(w.question)
	w.timer.Stop()
}

// parseMounts parses lines "device mountpoint type options 0 0" (proc_pid_mounts(5)). The kernel
// writes space, tab, newline and backslash as three octal digits.
func parseMounts(t []byte) []*mount {
	mounts := []*mount{}
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		device, l := sysfs.Field(l)
		point, l := sysfs.Field(l)
		fstype, l := sysfs.Field(l)
		options, _ := sysfs.Field(l)
		if len(point) == 0 || point[0] != '/' || len(options) == 0 {
			continue
		}
		m := &mount{device: sysfs.Unescape(string(device)), point: sysfs.Unescape(string(point)), fstype: sysfs.Unescape(string(fstype))}
		for option := range bytes.SplitSeq(options, []byte{','}) {
			m.readonly = m.readonly || string(option) == "ro"
			if user, ok := bytes.CutPrefix(option, []byte("user_id=")); ok && string(user) != "0" {
				m.user = string(user)
			}
		}
		if strings.IndexByte(m.point, 0) < 0 {
			mounts = append(mounts, m)
		}
	}
	return mounts
}
