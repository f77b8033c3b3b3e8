//go:build e2e_k8s

package k8s

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// line is one sample of the text format.
type line struct {
	name   string
	labels map[string]string
	value  float64
	at     time.Time // zero where the page reports none
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: (\d+))?$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// page asks the API server for a page and reads its samples.
func (b *bed) page(path string) ([]line, error) {
	text, err := b.command(30*time.Second, "", "kubectl", "get", "--raw", path)
	if err != nil {
		return nil, err
	}
	var out []line
	for l := range strings.SplitSeq(text, "\n") {
		m := sampleLine.FindStringSubmatch(l)
		if m == nil || strings.HasPrefix(l, "#") {
			continue
		}
		s := line{name: m[1], labels: map[string]string{}}
		for _, p := range labelPair.FindAllStringSubmatch(m[2], -1) {
			s.labels[p[1]] = p[2]
		}
		if s.value, err = strconv.ParseFloat(m[3], 64); err != nil {
			return nil, fmt.Errorf("%s: %w", l, err)
		}
		if ms, err := strconv.ParseInt(m[4], 10, 64); err == nil {
			s.at = time.UnixMilli(ms)
		}
		out = append(out, s)
	}
	return out, nil
}

// ours is the page of the agent, kubelets the page of the kubelet.
func (b *bed) ours() ([]line, error) {
	pod := b.must("kubectl", "-n", "reckon", "get", "pods", "-l", "app.kubernetes.io/component=agent", "--field-selector=spec.nodeName="+b.node, "-o", "jsonpath={.items[0].metadata.name}")
	return b.page("/api/v1/namespaces/reckon/pods/" + pod + ":9871/proxy/metrics")
}

func (b *bed) kubelets() ([]line, error) {
	return b.page("/api/v1/nodes/" + b.node + "/proxy/metrics/cadvisor")
}

// who names a container as dashboards do.
func who(l line) string {
	return strings.Join([]string{l.labels["namespace"], l.labels["pod"], l.labels["container"], l.labels["image"], l.labels["name"]}, " ")
}

// values of the containers of a namespace by who they are.
func pick(page []line, name string) map[string]line {
	out := map[string]line{}
	for _, l := range page {
		if l.name == name && l.labels["namespace"] == "shop" && l.labels["container"] != "" {
			out[who(l)] = l
		}
	}
	return out
}

// pods adds the rows of whole pods: those without container, image and name.
func pods(page []line, name string) map[string]line {
	out := pick(page, name)
	for _, l := range page {
		if l.name == name && l.labels["namespace"] == "shop" && l.labels["pod"] != "" && l.labels["container"]+l.labels["image"]+l.labels["name"] == "" {
			out[who(l)] = l
		}
	}
	return out
}

// steady are containers that run from before the test to its end.
func steady(who string) bool {
	return slices.ContainsFunc([]string{"shop cart-", "shop db-", "shop log-", "shop bare ", "shop bareset-"}, func(p string) bool { return strings.HasPrefix(who, p) })
}

// views: the view cadvisor has the labels of the kubelet's own page, its counters lie between what the
// kubelet read before and after, and its memory near; the view kube has what dashboards join on.
func (b *bed) views(t *testing.T) {
	before, err := b.ours()
	if err != nil {
		t.Fatal(err)
	}
	scraped := time.Now()
	var theirs []line
	const cpu = "container_cpu_usage_seconds_total"
	b.until(2*time.Minute, "figures of the kubelet that are younger", func() string {
		if theirs, err = b.kubelets(); err != nil {
			return err.Error()
		}
		n := 0
		for w, l := range pick(theirs, cpu) {
			if !steady(w) {
				continue
			}
			if n++; !l.at.After(scraped) {
				return w + " is of " + l.at.String()
			}
		}
		if n < 6 {
			return fmt.Sprintf("%d containers", n)
		}
		return ""
	})
	<-time.After(16 * time.Second) // an export after theirs
	after, err := b.ours()
	if err != nil {
		t.Fatal(err)
	}
	low, high := pods(before, cpu), pods(after, cpu)
	var worst float64
	var most string
	for w, l := range pods(theirs, cpu) {
		if !steady(w) {
			continue
		}
		from, ok1 := low[w]
		to, ok2 := high[w]
		if !ok1 || !ok2 {
			t.Errorf("%s: not in our view under these labels", w)
			continue
		}
		const tolerance = 0.02 // seconds: what runs between two readings of one export
		if l.value < from.value-tolerance || l.value > to.value+tolerance {
			t.Errorf("%s: the kubelet has %.3f s of CPU time, we %.3f before and %.3f after", w, l.value, from.value, to.value)
		}
	}
	for _, name := range []string{"container_memory_usage_bytes", "container_memory_working_set_bytes", "container_memory_rss"} {
		have := pods(after, name)
		for w, l := range pods(theirs, name) {
			if !steady(w) {
				continue
			}
			got, ok := have[w]
			if !ok {
				t.Errorf("%s %s: not in our view", name, w)
				continue
			}
			// They are seconds apart, and the shells begin and end programs all the time.
			if off := math.Abs(got.value - l.value); off > 0.1*l.value+1<<20 {
				t.Errorf("%s %s: %.0f, the kubelet %.0f", name, w, got.value, l.value)
			} else if share := off / cmp.Or(l.value, 1); share > worst {
				worst, most = share, fmt.Sprintf("%s of %s: %.0f, the kubelet %.0f", name, w, got.value, l.value)
			}
		}
	}
	// The kubelet's reading is seconds older: a shell of a few hundred kilobytes has begun a program meanwhile, or has not.
	t.Logf("memory at most %.1f %% beside the kubelet's: %s", 100*worst, most)
	for _, name := range []string{"container_spec_memory_limit_bytes", "container_spec_cpu_quota", "container_spec_cpu_period", "container_spec_cpu_shares"} {
		have := pick(after, name)
		for w, l := range pick(theirs, name) {
			if got := have[w]; steady(w) && got.value != l.value {
				t.Errorf("%s %s: %v, the kubelet %v", name, w, got.value, l.value)
			}
		}
	}
	devices(t, before, theirs, after)
	b.joins(t, after)
}

// devices: what passed the network of pods lies between the readings before and after the kubelet's.
func devices(t *testing.T, before, theirs, after []line) {
	sums := func(page []line, name string) map[string]float64 {
		out := map[string]float64{}
		for _, l := range page {
			if pod := l.labels["pod"]; l.name == name && l.labels["namespace"] == "shop" && steady("shop "+pod+" ") {
				out[pod+" "+l.labels["interface"]] += l.value
			}
		}
		return out
	}
	for _, name := range []string{"container_network_receive_bytes_total", "container_network_transmit_bytes_total", "container_network_receive_packets_total", "container_network_receive_packets_dropped_total", "container_network_transmit_errors_total"} {
		low, high, want := sums(before, name), sums(after, name), sums(theirs, name)
		if len(want) < 6 {
			t.Errorf("%s: the kubelet has %v", name, want)
		}
		for who, v := range want {
			from, ok1 := low[who]
			if to, ok2 := high[who]; !ok1 || !ok2 || v < 0.9*from || v > to { // the kubelet reads sandboxes rarely, maybe before us
				t.Errorf("%s of %s: the kubelet has %v, we %v (%v) before and %v (%v) after", name, who, v, from, ok1, to, ok2)
			}
		}
	}
}

// joins: what recording rules and dashboards join usage with.
func (b *bed) joins(t *testing.T, page []line) {
	find := func(name string, labels ...string) (found []line) {
		for _, l := range page {
			ok := l.name == name
			for i := 0; i+1 < len(labels); i += 2 {
				ok = ok && (l.labels[labels[i]] == labels[i+1] || strings.HasSuffix(labels[i+1], "*") && strings.HasPrefix(l.labels[labels[i]], strings.TrimSuffix(labels[i+1], "*")))
			}
			if ok {
				found = append(found, l)
			}
		}
		return found
	}
	for what, test := range map[string]struct {
		count  int
		value  float64
		name   string
		labels []string
	}{
		"pods of the ReplicaSet":      {2, 1, "kube_pod_owner", []string{"pod", "cart-*", "owner_kind", "ReplicaSet", "owner_name", "cart-*", "owner_is_controller", "true"}},
		"the ReplicaSet's owner":      {1, 1, "kube_replicaset_owner", []string{"namespace", "shop", "replicaset", "cart-*", "owner_kind", "Deployment", "owner_name", "cart"}},
		"a StatefulSet's pod":         {1, 1, "kube_pod_owner", []string{"pod", "db-0", "owner_kind", "StatefulSet", "owner_name", "db"}},
		"the Jobs of the JobSet":      {2, 1, "kube_job_owner", []string{"job_name", "train-*", "owner_kind", "JobSet", "owner_name", "train"}},
		"a bare pod":                  {1, 1, "kube_pod_owner", []string{"pod", "bare", "owner_kind", "<none>"}},
		"the node of a pod":           {1, 1, "kube_pod_info", []string{"pod", "db-0", "node", b.node, "host_ip", "10.199.0.10"}},
		"it is ready":                 {1, 1, "kube_pod_status_ready", []string{"pod", "db-0", "condition", "true"}},
		"the crashed one is not":      {1, 1, "kube_pod_status_ready", []string{"pod", "crashing", "condition", "false"}},
		"nor is its container":        {1, 0, "kube_pod_container_status_ready", []string{"pod", "crashing", "container", "main"}},
		"its phase":                   {1, 1, "kube_pod_status_phase", []string{"pod", "db-0", "phase", "Running"}},
		"no other phase":              {1, 0, "kube_pod_status_phase", []string{"pod", "db-0", "phase", "Failed"}},
		"its requests":                {1, 0.02, "kube_pod_container_resource_requests", []string{"pod", "db-0", "container", "main", "resource", "cpu", "unit", "core"}},
		"its limit":                   {1, 64 << 20, "kube_pod_container_resource_limits", []string{"pod", "db-0", "container", "main", "resource", "memory", "unit", "byte"}},
		"restarts":                    {1, 0, "kube_pod_container_status_restarts_total", []string{"pod", "db-0", "container", "main"}},
		"the crash":                   {1, 3, "kube_pod_container_status_last_terminated_exitcode", []string{"pod", "crashing"}},
		"the kill for lack of memory": {1, 1, "kube_pod_container_status_terminated_reason", []string{"pod", "hungry", "reason", "OOMKilled"}},
	} {
		got := find(test.name, test.labels...)
		if len(got) != test.count {
			t.Errorf("%s: %d series of %s %v, want %d: %v", what, len(got), test.name, test.labels, test.count, find(test.name, "namespace", "shop"))
			continue
		}
		for _, l := range got {
			if l.value != test.value {
				t.Errorf("%s: %v is %v, want %v", what, l.labels, l.value, test.value)
			}
		}
	}
}
