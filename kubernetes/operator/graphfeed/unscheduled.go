package graphfeed

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workloads "reckon/workload/kubernetes"
)

// reportEvery is the interval at which pods without a node are reported, because no agent lists them.
const reportEvery = 10 * time.Second

// unscheduled holds the label values of a series about a pod without a node, and the creation time of the pod in
// seconds since the Unix epoch. The zero value means that the pod has no such series.
type unscheduled struct {
	values  [7]string
	created int64
}

var unscheduledLabels = [7]string{"workload", "kind", "part", "owner", "run", "reason", "message"}

// unscheduledSeries returns the series about a pod, if the scheduler has a reason why no node has it.
func unscheduledSeries(o metav1.Object) unscheduled {
	p, ok := o.(*core.Pod)
	if !ok || p.Spec.NodeName != "" {
		return unscheduled{}
	}
	pod := workloads.Pod{Namespace: p.Namespace, Name: p.Name, ReportedUID: string(p.UID), Labels: p.Labels,
		Created: p.CreationTimestamp.Time, Completes: p.Spec.RestartPolicy != core.RestartPolicyAlways}
	if owner := metav1.GetControllerOf(p); owner != nil {
		pod.OwnerKind, pod.OwnerName, pod.OwnerUID = owner.Kind, owner.Name, string(owner.UID)
	}
	id := workloads.IdentityOf(&pod)
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse && c.Reason != "" {
			message, _, _ := strings.Cut(c.Message, " preemption: ") // why no other pod makes room, for each node again
			return unscheduled{[7]string{string(id.Workload), string(id.Workload.Kind()), p.Name, id.Owner, id.Facts.Run, c.Reason,
				strings.TrimRight(message, ". ")}, pod.Created.Unix()}
		}
	}
	return unscheduled{}
}

// reportUnscheduled sends samples of the pods without a node by OTLP until ctx ends. After a pod was scheduled or
// deleted, the next successful report marks its series as ended.
func (f *Feed) reportUnscheduled(ctx context.Context) {
	sent, failing := map[unscheduled]bool{}, false
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		now, points := map[unscheduled]bool{}, []fields{}
		for _, o := range f.informers["Pod"].GetStore().List() {
			if u := o.(*objectRecord).waits; u.created != 0 {
				now[u] = true
				points = append(points, u.dataPoint(0))
			}
		}
		for u := range sent {
			if !now[u] {
				points = append(points, u.dataPoint(1))
			}
		}
		err := f.client.sendPoints(ctx, f.o.Site, points)
		if err != nil {
			maps.Copy(now, sent) // Pods that got a node still need an end marker.
			if !failing && ctx.Err() == nil {
				f.o.Log.Warn("pods without a node cannot be reported; they are tried again", "error", err)
			}
		}
		sent, failing = now, err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// fields are a JSON object.
type fields = map[string]any

// dataPoint returns a NumberDataPoint of OTLP; flags 1 ends the series.
func (u *unscheduled) dataPoint(flags int) fields {
	var of []fields
	for i, name := range unscheduledLabels {
		of = append(of, attribute(name, u.values[i]))
	}
	return fields{"timeUnixNano": strconv.FormatInt(time.Now().UnixNano(), 10), "asDouble": u.created, "flags": flags, "attributes": of}
}

func attribute(key, value string) fields {
	return fields{"key": key, "value": fields{"stringValue": value}}
}

// sendPoints sends points of the series of pods without a node.
func (r *remoteGraph) sendPoints(ctx context.Context, site string, points []fields) error {
	if len(points) == 0 {
		return nil
	}
	body, err := json.Marshal(fields{"resourceMetrics": []fields{{"resource": fields{"attributes": []fields{attribute("site", site)}},
		"scopeMetrics": []fields{{"metrics": []fields{{"name": "reckon_pod_unscheduled_since_seconds",
			"gauge": fields{"dataPoints": points}}}}}}}})
	if err != nil {
		return err
	}
	return r.sendRequest(ctx, http.MethodPost, "/v1/metrics", body, http.Header{"Content-Type": {"application/json"}}, nil)
}
