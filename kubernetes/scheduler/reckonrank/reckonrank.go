// Package reckonrank is a plugin of kube-scheduler that prefers nodes as reckon ranks them: nodes
// with free capacity and a known load come first, ordered by the watts that the pod adds there.
//
// It is a thin client. The server computes the ranking (POST /api/reckon/v1/rank) once for each
// pod, in PreScore. If the server does not answer within the timeout, 20 ms by default, the plugin
// is skipped for the pod, so that it neither prefers a node nor fails. Reserve reports the node of
// the pod to the server, so that the pod counts there before it is measured.
//
// A [Plugin] is safe for concurrent use.
package reckonrank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Name of the plugin in the configuration of the scheduler.
const Name = "ReckonRank"

// Args are the arguments of the plugin in the configuration of the scheduler.
type Args struct {
	// URL of the reckon server, such as http://reckon.reckon:9870.
	URL string `json:"url"`
	// TimeoutMilliseconds is for how long an answer is waited for; 0 is 20.
	TimeoutMilliseconds int `json:"timeoutMilliseconds,omitempty"`
	// TokenFile holds a token for the server; it is read for each request, for it may be renewed.
	TokenFile string `json:"tokenFile,omitempty"`
	// Site is the server's name for the site of the nodes; empty if it has a single one.
	Site string `json:"site,omitempty"`
}

const (
	defaultTimeout = 20 * time.Millisecond
	// maxNamed is the largest number of nodes that a request names; beyond that it requests all nodes.
	maxNamed = 100
	// maxAnswer limits the bytes read of an answer; 100,000 nodes take less.
	maxAnswer = 64 << 20
	gpu       = v1.ResourceName("nvidia.com/gpu")
	stateKey  = fwk.StateKey("reckon/" + Name)
)

// Plugin scores nodes.
type Plugin struct {
	args    Args
	timeout time.Duration
	client  *http.Client
}

var (
	_ framework.PreScorePlugin = (*Plugin)(nil)
	_ framework.ScorePlugin    = (*Plugin)(nil)
	_ framework.ReservePlugin  = (*Plugin)(nil)
)

// New makes the plugin; it is a factory of the scheduler.
func New(_ context.Context, configuration runtime.Object, _ framework.Handle) (framework.Plugin, error) {
	var args Args
	if err := frameworkruntime.DecodeInto(configuration, &args); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", Name, err)
	}
	return newPlugin(args)
}

func newPlugin(args Args) (*Plugin, error) {
	at, err := url.Parse(args.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("arguments of %s: url %q is no address of a reckon server, such as http://reckon.reckon:9870", Name,
			args.URL)
	}
	if args.TimeoutMilliseconds < 0 {
		return nil, fmt.Errorf("arguments of %s: timeoutMilliseconds %d: give 1 or more", Name, args.TimeoutMilliseconds)
	}
	args.URL = strings.TrimSuffix(args.URL, "/")
	p := &Plugin{args: args, timeout: defaultTimeout, client: &http.Client{}}
	if args.TimeoutMilliseconds > 0 {
		p.timeout = time.Duration(args.TimeoutMilliseconds) * time.Millisecond
	}
	return p, nil
}

// Name implements framework.Plugin.
func (*Plugin) Name() string { return Name }

// ranking holds the scores of the nodes for one pod.
type ranking map[string]int64

// Clone implements fwk.StateData; a ranking does not change.
func (r ranking) Clone() fwk.StateData { return r }

// PreScore requests the ranking. Without an answer, the plugin is skipped for the pod.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	q := p.podRequest(pod)
	if data := dataNames(pod); len(data) > 0 {
		q["data"] = data
	}
	if len(nodes) <= maxNamed {
		for _, n := range nodes {
			q.Add("node", n.Node().Name)
		}
	}
	var answer struct {
		Nodes []struct {
			Node  string `json:"node"`
			Score int64  `json:"score"`
		} `json:"nodes"`
	}
	if err := p.post(ctx, "/api/reckon/v1/rank", q, &answer); err != nil {
		klog.FromContext(ctx).V(2).Info("no ranking, the plugin has no preference", "pod", klog.KObj(pod), "err", err)
		return fwk.NewStatus(fwk.Skip)
	}
	scores := make(ranking, len(answer.Nodes))
	for _, n := range answer.Nodes {
		scores[n.Node] = min(max(n.Score, framework.MinNodeScore), framework.MaxNodeScore)
	}
	state.Write(stateKey, scores)
	return nil
}

// Score returns the score of the server for a node. A node that the server does not know gets 0.
func (*Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	found, err := state.Read(stateKey)
	if err != nil {
		return 0, nil
	}
	scores, _ := found.(ranking)
	return scores[node.Node().Name], nil
}

// ScoreExtensions implements framework.ScorePlugin: scores are between 0 and 100 already.
func (*Plugin) ScoreExtensions() framework.ScoreExtensions { return nil }

// Reserve reports the node of the pod. The answer has no effect.
func (p *Plugin) Reserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.reportPlacement(ctx, pod, node, false)
	return nil
}

// Unreserve withdraws the report.
func (p *Plugin) Unreserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.reportPlacement(ctx, pod, node, true)
}

func (p *Plugin) reportPlacement(ctx context.Context, pod *v1.Pod, node string, removed bool) {
	q := p.podRequest(pod)
	q.Set("node", node)
	if removed {
		q.Set("removed", "true")
	}
	if err := p.post(ctx, "/api/reckon/v1/rank/placed", q, nil); err != nil {
		klog.FromContext(ctx).V(2).Info("the ranking does not know of the placement until it is measured", "pod", klog.KObj(pod), "err",
			err)
	}
}

// podRequest returns the request of the pod, in the server's form.
func (p *Plugin) podRequest(pod *v1.Pod) url.Values {
	asked := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	q := url.Values{}
	amount := func(name string, v float64) {
		if v > 0 {
			q.Set(name, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	amount("cores", asked.Cpu().AsApproximateFloat64())
	amount("memory_bytes", asked.Memory().AsApproximateFloat64())
	if v, ok := asked[gpu]; ok {
		amount("gpus", v.AsApproximateFloat64())
	}
	if p.args.Site != "" {
		q.Set("site", p.args.Site)
	}
	if pod.UID != "" {
		q.Set("work", string(pod.UID))
	}
	return q
}

// dataNames returns the names under which the knowledge graph holds the pod's data: its persistent volumes, and the data
// sets in its annotations.
func dataNames(pod *v1.Pod) (out []string) {
	for _, v := range pod.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil {
			out = append(out, "persistentVolumeClaim/"+pod.Namespace+"/"+c.ClaimName)
		}
	}
	for name := range strings.SplitSeq(pod.Annotations["reckon.io/reads"], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, "dataset/"+name)
		}
	}
	return out
}

func (p *Plugin) post(ctx context.Context, path string, q url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.args.URL+path, strings.NewReader(q.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if p.args.TokenFile != "" {
		token, err := os.ReadFile(p.args.TokenFile)
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := io.LimitReader(answer.Body, maxAnswer)
	if answer.StatusCode != http.StatusOK {
		_, err := io.Copy(io.Discard, body)
		return errors.Join(fmt.Errorf("%s: %s", path, answer.Status), err)
	}
	if into == nil {
		_, err := io.Copy(io.Discard, body)
		return err
	}
	return json.NewDecoder(body).Decode(into)
}
