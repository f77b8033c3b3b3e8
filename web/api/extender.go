package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"reckon/access"
	"reckon/internal/kubelet"
	"reckon/web/client"
)

// maxExtender limits the request body of an extender, bytes: the scheduler may send whole nodes of a large cluster.
const maxExtender = 128 << 20

// extenderArgs is the request of kube-scheduler to an extender
// (k8s.io/kube-scheduler/extender/v1.ExtenderArgs): a pod and nodes, or only their names with nodeCacheCapable.
type extenderArgs struct {
	Pod struct {
		Metadata struct {
			UID         string            `json:"uid"`
			Namespace   string            `json:"namespace"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Containers, InitContainers []extenderContainer
			Overhead                   map[string]string
			Volumes                    []struct {
				Claim *struct {
					Name string `json:"claimName"`
				} `json:"persistentVolumeClaim"`
			} `json:"volumes"`
		} `json:"spec"`
	}
	Nodes *struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	NodeNames *[]string
}

type extenderContainer struct {
	RestartPolicy string `json:"restartPolicy"`
	Resources     struct {
		Requests map[string]string `json:"requests"`
	} `json:"resources"`
}

// effectiveRequest returns the effective request of a pod: the sum over its containers and sidecars, or a larger init container.
func (a *extenderArgs) effectiveRequest(resource string) float64 {
	amount := func(of map[string]string) float64 {
		v, ok := kubelet.Quantity(of[resource])
		if !ok || v < 0 {
			return 0
		}
		return v
	}
	sum, beside, initial := 0.0, 0.0, 0.0
	for i := range a.Pod.Spec.InitContainers {
		c := &a.Pod.Spec.InitContainers[i]
		v := amount(c.Resources.Requests)
		if c.RestartPolicy == "Always" {
			beside += v
			v = 0
		}
		initial = max(initial, beside+v)
	}
	for i := range a.Pod.Spec.Containers {
		sum += amount(a.Pod.Spec.Containers[i].Resources.Requests)
	}
	return max(sum+beside, initial) + amount(a.Pod.Spec.Overhead)
}

// dataNames returns the names, in the knowledge graph, of the data that a pod reads: its persistent volumes, and the
// dataNames sets in its annotation.
func (a *extenderArgs) dataNames() (out []string) {
	for _, v := range a.Pod.Spec.Volumes {
		if v.Claim != nil {
			out = append(out, "persistentVolumeClaim/"+a.Pod.Metadata.Namespace+"/"+v.Claim.Name)
		}
	}
	for name := range strings.SplitSeq(a.Pod.Metadata.Annotations["reckon.io/reads"], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, "dataset/"+name)
		}
	}
	return out
}

func (a *extenderArgs) nodeNames() []string {
	if a.NodeNames != nil {
		return *a.NodeNames
	}
	var out []string
	if a.Nodes != nil {
		for i := range a.Nodes.Items {
			out = append(out, a.Nodes.Items[i].Metadata.Name)
		}
	}
	return out
}

func (s *server) servePriorities(w http.ResponseWriter, r *http.Request, q *query) error {
	site, _ := q.get("site")
	if q.err != nil {
		return q.err
	}
	if err := s.requireRanks(); err != nil {
		return err
	}
	var args extenderArgs
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxExtender)).Decode(&args); err != nil {
		return newError(http.StatusBadRequest, "send what kube-scheduler sends to an extender", "cannot read the body: %v", err)
	}
	names := args.nodeNames()
	out := make([]client.HostPriority, len(names))
	for i, n := range names {
		out[i].Host = n
	}
	if len(names) == 0 {
		writeJSON(w, http.StatusOK, out)
		return nil
	}
	f := client.RankQuery{Cores: args.effectiveRequest("cpu"), MemoryBytes: args.effectiveRequest("memory"),
		GPUs: args.effectiveRequest("nvidia.com/gpu"),
		Site: site, Nodes: names, Work: args.Pod.Metadata.UID, Data: args.dataNames()}
	ranking, err := s.Ranks.Rank(r.Context(), f)
	if err != nil {
		return err
	}
	scores := make(map[string]int64, len(ranking.Nodes))
	for _, n := range ranking.Nodes {
		scores[n.Node] = int64(n.Score / 10)
	}
	for i := range out {
		out[i].Score = scores[out[i].Host]
	}
	if len(ranking.Nodes) > 0 && f.Work != "" && ranking.Nodes[0].Tier == "room" && access.From(r.Context()).Role >= access.Admin {
		if err := s.Ranks.Placed(r.Context(), ranking.Nodes[0].Site, ranking.Nodes[0].Node, false, f); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}
