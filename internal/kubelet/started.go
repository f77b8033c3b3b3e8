package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/internal/cgpath"
)

// The kubelet lists the id of a container a second or two after it was started. The link to the
// container's log, which the kubelet creates as soon as the runtime has started it, has the id at
// once.

// maxLinksAge is the time for which links are reused, because an unlisted container may start many processes.
const maxLinksAge = 200 * time.Millisecond

// logLinks holds the links to the logs of containers.
type logLinks struct {
	folder string
	ids    map[string][]string // by POD_NAMESPACE_CONTAINER
}

// readLinks reads the names of the links to logs of containers. A missing folder has none.
func readLinks(root string) *logLinks {
	out := &logLinks{folder: filepath.Join("/", root, containerLogs), ids: map[string][]string{}}
	list, _ := os.ReadDir(out.folder)
	for _, l := range list {
		name, id, ok := cutLast(strings.TrimSuffix(l.Name(), ".log"), '-')
		if ok && len(id) == 64 && cgpath.Hex(id, 64) { // else it was too long for a name
			out.ids[name] = append(out.ids[name], id)
		}
	}
	return out
}

// restartCount returns the number of restarts before a container, from the name of its log. It returns -1 if the link is gone.
func (l *logLinks) restartCount(name, id string) int {
	log, err := os.Readlink(filepath.Join(l.folder, name+"-"+id+".log"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(log), ".log"))
	if err != nil {
		return -1
	}
	return n
}

// latestID returns the id of the container with the given name and the highest number above after, or "" if there is
// none. An ended container keeps its link for some time, so one name may have several ids.
func (l *logLinks) latestID(name string, after int) (id string) {
	for _, x := range l.ids[name] {
		if n := l.restartCount(name, x); n > after {
			id, after = x, n
		}
	}
	return id
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// isStarting reports whether a container of the pod may be running under an id that is not listed yet.
func (p *Pod) isStarting() bool {
	return slices.ContainsFunc(p.Containers,
		func(c Container) bool { return !c.Running && (c.Ended == nil || !p.Completes && c.Type != Init) })
}

// withStarted returns the pod with the containers that were started since it was listed, or the pod itself.
func (p *Pod) withStarted(links *logLinks) *Pod {
	out := p
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Running {
			continue
		}
		after := c.Restarts
		if c.ID == "" {
			after = -1
		}
		id := links.latestID(p.Name+"_"+p.Namespace+"_"+c.Name, after)
		if id == "" || p.Container(id) != nil {
			continue
		}
		if out == p {
			clone := *p
			clone.Containers = slices.Clone(p.Containers)
			out = &clone
		}
		o := &out.Containers[i]
		o.ID, o.Previous, o.Running, o.Waiting, o.Before = id, c.ID, true, "", nil
	}
	return out
}

// updateStarted returns a pod updated from its links. The caller must hold the lock.
func (s *Cache) updateStarted(p *Pod) *Pod {
	if now := time.Now(); s.links == nil || now.Sub(s.linksRead) >= maxLinksAge {
		s.links, s.linksRead = readLinks(s.unlisted.root), now
	}
	q := p.withStarted(s.links)
	if q != p {
		s.pods = slices.Clone(s.pods) // others hold the list
		s.pods[slices.Index(s.pods, p)] = q
		s.byUID[q.UID], s.byUID[q.ReportedUID] = q, q
	}
	return q
}
