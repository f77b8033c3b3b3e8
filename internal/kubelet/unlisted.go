package kubelet

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The kubelet lists the pods of the API server. A pod that was deleted with a grace period of zero disappears from that
// list at once, although its containers may still run. Its names remain in earlier answers and in the log folders. The
// kubelet creates these folders before it starts a sandbox and names them after the pod (pkg/kubelet/kuberuntime):
//
//	/var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log
//	/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log    a link, while the container exists
const (
	podLogs       = "var/log/pods"
	containerLogs = "var/log/containers"
)

const (
	// maxListDelay is the number of answers within which the kubelet lists every pod that it has. One answer is not enough,
	// because it may have been under way when the agent first saw the pod.
	maxListDelay = 2
	// unlistedAnswers is the number of answers for which an unlisted pod is kept.
	unlistedAnswers = 20
)

// unlistedPods holds the pods that the kubelet does not list.
type unlistedPods struct {
	root  string                // of the file system that has the logs
	was   map[string]removedPod // by UID: in an earlier answer
	named map[string]*Pod       // by UID: named by their folders
}

type removedPod struct {
	pod     *Pod
	version uint64
}

// keepMissing keeps pods that an answer no longer lists.
func (u *unlistedPods) keepMissing(before, now map[string]*Pod, version uint64) {
	for uid, p := range before {
		if now[uid] == nil {
			left := *p
			left.Unlisted = true
			u.was[uid] = removedPod{&left, version}
		}
	}
	for uid, g := range u.was {
		if now[uid] != nil || version-g.version > unlistedAnswers {
			delete(u.was, uid)
		}
	}
}

// findPod returns the pod with this UID although the kubelet does not list it. after is the number of complete answers without the pod.
// synced reports whether the last answer had pods of the API server, because a restarted kubelet lists none of them at first.
func (u *unlistedPods) findPod(uid string, after int, synced bool) *Pod {
	if g, ok := u.was[uid]; ok {
		return g.pod
	}
	if after >= maxTries || after >= maxListDelay && synced {
		return u.named[uid]
	}
	return nil
}

// readFolders reads the log folders of pods, and drops the pods that are no longer wanted. listed are the pods of the last answer.
func (u *unlistedPods) readFolders(wanted map[string]bool, listed []*Pod) {
	for uid := range u.named {
		if !wanted[uid] {
			delete(u.named, uid)
		}
	}
	if len(wanted) == 0 {
		return
	}
	folders, _ := os.ReadDir(filepath.Join("/", u.root, podLogs)) // a missing folder names no pods
	var links *logLinks
	for _, f := range folders {
		namespace, name, uid, ok := parsePodFolder(f.Name())
		if !ok || !wanted[uid] {
			continue
		}
		if links == nil {
			links = readLinks(u.root)
		}
		p := u.named[uid]
		if p == nil {
			p = &Pod{Namespace: namespace, Name: name, UID: uid, ReportedUID: uid, Unlisted: true}
			p.copyOwner(listed)
		}
		u.named[uid] = p.withContainers(filepath.Join("/", u.root, podLogs, f.Name()), links)
	}
}

// parsePodFolder parses NAMESPACE_POD_UID. Names in Kubernetes contain no underscore.
func parsePodFolder(folder string) (namespace, name, uid string, ok bool) {
	piece := strings.Split(folder, "_")
	if len(piece) != 3 || slices.Contains(piece, "") {
		return "", "", "", false
	}
	return piece[0], piece[1], piece[2], true
}

// withContainers returns the pod with the containers that have a log folder. It sets the ids of containers that have a link.
func (p *Pod) withContainers(folder string, links *logLinks) *Pod {
	out := *p
	out.Containers = slices.Clone(p.Containers)
	list, _ := os.ReadDir(folder)
	for _, e := range list {
		i := slices.IndexFunc(out.Containers, func(c Container) bool { return c.Name == e.Name() })
		if i < 0 {
			out.Containers = append(out.Containers, Container{Name: e.Name()})
			i = len(out.Containers) - 1
		}
		c := &out.Containers[i]
		if id := links.latestID(p.Name+"_"+p.Namespace+"_"+c.Name, -1); id != "" && id != c.ID {
			c.ID, c.Previous = id, c.ID
		}
	}
	return &out
}

// randomSuffix is the number of characters that the API server appends to the name of a pod (k8s.io/apiserver/pkg/storage/names).
const randomSuffix = 5

// copyOwner sets the owner of an unlisted pod to the owner of a listed pod with the same owner. It compares the parts of pod
// names that come from the owner. For ReplicaSets of one Deployment, these differ only in the hash.
func (p *Pod) copyOwner(listed []*Pod) {
	at := len(p.Name) - randomSuffix - 1
	if at <= 0 || p.Name[at] != '-' {
		return
	}
	owner := p.Name[:at]
	for _, q := range listed {
		if q.Namespace != p.Namespace || q.OwnerName == "" || q.Static {
			continue
		}
		if q.OwnerName == owner {
			p.OwnerKind, p.OwnerName, p.OwnerUID, p.Labels, p.Completes, p.Created = q.OwnerKind, q.OwnerName, q.OwnerUID, q.Labels,
				q.Completes, q.Created
			return
		}
		hash := q.Labels[templateHash]
		deployment, ok := strings.CutSuffix(q.OwnerName, "-"+hash)
		mine, of := strings.CutPrefix(owner, deployment+"-")
		if hash == "" || !ok || !of || q.OwnerKind != "ReplicaSet" || mine == "" || strings.Contains(mine, "-") {
			continue
		}
		p.OwnerKind, p.OwnerName, p.Labels = q.OwnerKind, owner, maps.Clone(q.Labels)
		p.Labels[templateHash] = mine
	}
}

// templateHash is the label that a Deployment sets on its pods (pkg/controller/deployment).
const templateHash = "pod-template-hash"
