package kubelet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"reckon/internal/cgpath"
)

// The kubelet lists the id of a container a second or two after it was started. The link to the log of the container, which it makes as soon
// as the runtime has started it, has the id at once.

// linksAge is for how long the links that were read are used: a container that is not listed yet may start many processes.
const linksAge = 200 * time.Millisecond

// links are the ids of containers, by POD_NAMESPACE_CONTAINER.
type links map[string][]string

// readLinks reads the names of the links to logs of containers, none where they are not there.
func readLinks(root string) links {
	list, _ := os.ReadDir(filepath.Join("/", root, containerLogs))
	out := make(links, len(list))
	for _, l := range list {
		name, id, ok := cutLast(strings.TrimSuffix(l.Name(), ".log"), '-')
		if ok && len(id) == 64 && cgpath.Hex(id, 64) { // else it was too long for a name
			out[name] = append(out[name], id)
		}
	}
	return out
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// starting reports whether a container of the pod may be running under an id that is not listed yet.
func (p *Pod) starting() bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool { return !c.Running && (c.Ended == nil || !p.Completes && c.Type != Init) })
}

// started returns the pod with the containers that were started since it was listed, or the pod itself.
func (p *Pod) started(links links) *Pod {
	out := p
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Running {
			continue
		}
		for _, id := range links[p.Name+"_"+p.Namespace+"_"+c.Name] {
			if p.Container(id) != nil || c.Before != nil && c.Before.ID == id {
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
	}
	return out
}

// start replaces a pod by what the links say of it. The caller holds the lock.
func (s *Cache) start(p *Pod) *Pod {
	if now := time.Now(); s.links == nil || now.Sub(s.linksRead) >= linksAge {
		s.links, s.linksRead = readLinks(s.unlisted.root), now
	}
	q := p.started(s.links)
	if q != p {
		s.pods = slices.Clone(s.pods) // others hold the list
		s.pods[slices.Index(s.pods, p)] = q
		s.byUID[q.UID], s.byUID[q.ReportedUID] = q, q
	}
	return q
}
