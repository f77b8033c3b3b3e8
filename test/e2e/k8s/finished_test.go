//go:build e2e_k8s

package k8s

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// finished: Jobs, CronJobs, StatefulSets and bare pods end when the kubelet says that their last container finished, whatever the
// agent's linger.
func (b *bed) finished(t *testing.T, install []string) {
	for _, linger := range []string{"0s", "60s"} {
		t.Run("linger "+linger, func(t *testing.T) {
			b.t = t
			b.must("helm", append([]string{"upgrade", "--set", "agent.extraArgs={--set=linger=" + linger + "}"}, install...)...)
			b.must("kubectl", "-n", "reckon", "rollout", "status", "daemonset/reckon-agent", "--timeout=170s")
			b.ended(t, "l"+linger)
		})
		b.t = t
	}
	b.must("helm", append([]string{"upgrade"}, install...)...)
	b.must("kubectl", "-n", "reckon", "rollout", "status", "daemonset/reckon-agent", "--timeout=170s")
}

// held keeps the object of a pod until its end was read, also when its controller deletes it.
const held = "reckon.test/read"

// ended runs 25 workloads to their ends and compares these.
func (b *bed) ended(t *testing.T, prefix string) {
	const jobs, bare, sets, scheduled = 15, 4, 4, 2
	meta := func(name string, spec object) object {
		return object{"metadata": object{"labels": object{"ends": prefix, "run": name}, "finalizers": []string{held}}, "spec": spec}
	}
	length := func(i int) string { return fmt.Sprintf("sleep %d.%d; %s", 1+i*2, i%10, brief) }
	var all []any
	wanted := map[string]string{} // the label run of the pods, of each workload
	for i := range jobs {
		name := fmt.Sprintf("%s-job%d", prefix, i)
		wanted["job/shop/"+name] = name
		template := meta(name, pod("Never", container("main", length(i))))
		all = append(all, named("Job", "batch/v1", name, object{"backoffLimit": 0, "template": template}))
	}
	for i := range bare {
		name := fmt.Sprintf("%s-pod%d", prefix, i)
		wanted["pod/shop/"+name] = name
		one := meta(name, pod("Never", container("main", length(3*i+1)), container("second", length(2*i))))
		one["apiVersion"], one["kind"] = "v1", "Pod"
		one["metadata"].(object)["name"], one["metadata"].(object)["namespace"] = name, "shop"
		all = append(all, one)
	}
	for i := range sets {
		name := fmt.Sprintf("%s-set%d", prefix, i)
		wanted["statefulset/shop/"+name] = name
		template := meta(name, pod("Always", container("main", burn)))
		template["metadata"].(object)["labels"].(object)["app"] = name
		all = append(all, named("StatefulSet", "apps/v1", name,
			object{"replicas": 1, "serviceName": name, "selector": selector(name), "template": template}))
	}
	for i := range scheduled {
		name := fmt.Sprintf("%s-cron%d", prefix, i)
		wanted["cronjob/shop/"+name] = name
		all = append(all, named("CronJob", "batch/v1", name, object{"schedule": "* * * * *", "concurrencyPolicy": "Forbid",
			"jobTemplate": object{"spec": object{"backoffLimit": 0, "template": meta(name, pod("Never", container("main", length(3+i))))}}}))
	}
	release := func() {
		for p := range strings.FieldsSeq(b.must("kubectl", "-n", "shop", "get", "pods", "-l", "ends="+prefix, "-o", "name")) {
			b.must("kubectl", "-n", "shop", "patch", p, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		}
	}
	defer func() { // a namespace with held pods does not end
		if t.Failed() {
			release()
		}
	}()
	b.apply(all...)
	b.until(3*time.Minute, "the StatefulSets and CronJobs have begun", func() string {
		out := b.must("kubectl", "-n", "shop", "get", "pods", "-l", "ends="+prefix, "-o",
			"jsonpath={range .items[*]}{.metadata.labels.run} {.status.containerStatuses[0].started}{\"\\n\"}{end}")
		for i := range sets {
			if !strings.Contains(out, fmt.Sprintf("%s-set%d true", prefix, i)) {
				return out
			}
		}
		for i := range scheduled {
			if !strings.Contains(out, fmt.Sprintf("%s-cron%d ", prefix, i)) {
				return out
			}
		}
		return ""
	})
	for i := range scheduled { // one run of each
		b.must("kubectl", "-n", "shop", "patch", "cronjob", fmt.Sprintf("%s-cron%d", prefix, i), "-p", `{"spec":{"suspend":true}}`)
	}
	for i := range sets {
		<-time.After(7 * time.Second)
		b.must("kubectl", "-n", "shop", "delete", "statefulset", fmt.Sprintf("%s-set%d", prefix, i), "--wait=false")
	}
	finished := map[string]time.Time{} // last of the containers of a run
	b.until(3*time.Minute, "all ends", func() string {
		var list struct {
			Items []struct {
				Metadata struct{ Labels map[string]string }
				Status   struct {
					ContainerStatuses []struct {
						State struct {
							Terminated *struct{ FinishedAt time.Time }
						}
					}
				}
			}
		}
		out := b.must("kubectl", "-n", "shop", "get", "pods", "-l", "ends="+prefix, "-o", "json")
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err.Error()
		}
		clear(finished)
		for _, p := range list.Items {
			for _, c := range p.Status.ContainerStatuses {
				if c.State.Terminated == nil {
					return p.Metadata.Labels["run"] + " runs"
				}
				if at := c.State.Terminated.FinishedAt; at.After(finished[p.Metadata.Labels["run"]]) {
					finished[p.Metadata.Labels["run"]] = at
				}
			}
		}
		if len(finished) < len(wanted) {
			return fmt.Sprint(finished)
		}
		return ""
	})
	<-time.After(40 * time.Second) // two exports and the asking of the kubelet
	compare := func(when string) {
		out, err := b.reckon("jobs", "--since", "30m", "--format", "json", "--owner", "shop", "--limit", "0")
		if err != nil {
			t.Fatal(err)
		}
		var rows []struct {
			ID  string
			End *time.Time
		}
		if err := json.Unmarshal([]byte(out), &rows); err != nil {
			t.Fatalf("%v: %.300s", err, out)
		}
		seen := 0
		for _, r := range rows {
			run, ok := wanted[r.ID]
			if !ok {
				continue
			}
			seen++
			if r.End == nil {
				t.Errorf("%s: %s has no end; the kubelet says %s", when, r.ID, finished[run].Format(time.TimeOnly))
				continue
			}
			late := r.End.Sub(finished[run]) // the kubelet's are whole seconds, rounded down
			t.Logf("%s: %s %+.2f s", when, r.ID, late.Seconds())
			if late < -time.Second || late > 2*time.Second {
				t.Errorf("%s: %s ended at %s, by the kubelet at %s", when, r.ID, r.End.Format("15:04:05.0"),
					finished[run].Format(time.TimeOnly))
			}
		}
		if seen != len(wanted) {
			t.Errorf("%s: %d of %d workloads have a row: %.2000s", when, seen, len(wanted), out)
		}
	}
	compare("pods there")
	release()
	for id := range wanted { // their objects go now
		kind, name, _ := strings.Cut(strings.Replace(id, "/shop/", "/", 1), "/")
		b.must("kubectl", "-n", "shop", "delete", kind, name, "--ignore-not-found")
	}
	<-time.After(40 * time.Second)
	compare("pods gone")
}
