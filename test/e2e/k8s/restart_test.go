//go:build e2e_k8s

package k8s

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// restarts: while pods work, the agent of their node is killed twice and the kubelet once. The pods keep their names, their counters never
// fall, and at their ends they were charged what their control groups counted.
func (b *bed) restarts(t *testing.T) {
	const pods = 3
	const work = "j=0; while [ $j -lt 1000 ]; do i=0; while [ $i -lt 2500 ]; do i=$((i+1)); done; sleep 0.1; j=$((j+1)); done"
	const cpu = `reckon_workload_cpu_seconds_total{workload="job/shop/going-on"`
	groups := b.watchPods(t)
	b.apply(named("Job", "batch/v1", "going-on", object{"completions": pods, "parallelism": pods, "backoffLimit": 0, "template": object{"spec": pod("Never", container("main", work))}}))
	seen := func(what string) {
		since := time.Now()
		b.until(2*time.Minute, what, func() string {
			list, err := b.query(fmt.Sprintf(`timestamp(%s,part=~".+/main",mode="user"}) > %.3f`, cpu, float64(since.UnixMilli())/1000))
			if err != nil || len(list) != pods {
				return fmt.Sprint(list, err)
			}
			return ""
		})
	}
	kill := func(program string) {
		if out, err := b.command(time.Minute, "", scripts+"/node-exec.sh", b.node, "sh", "-c", "kill -KILL $(pidof "+program+")"); err != nil {
			t.Fatal(out, err)
		}
	}
	seen("the pods at work")
	for i := range 2 {
		kill("reckon-agent")
		seen(fmt.Sprintf("the pods after the agent was killed for time %d", i+1))
	}
	kill("kubelet")
	seen("the pods after the kubelet was killed")
	b.apply(named("Pod", "v1", "afterwards", pod("Always", container("main", burn))))
	b.until(2*time.Minute, "a new pod by its name, and the kubelet answers", func() string {
		for _, q := range []string{`reckon_workload_cpu_seconds_total{workload="pod/shop/afterwards",part="main",mode="user"}`, `reckon_sensor_up{sensor="kubelet",node="` + b.node + `"} == 1`} {
			if list, err := b.query(q); err != nil || len(list) == 0 {
				return fmt.Sprint("nothing for ", q, err)
			}
		}
		return ""
	})
	b.until(5*time.Minute, "the end of the pods", func() string {
		if ended := b.must("kubectl", "-n", "shop", "get", "job", "going-on", "-o", "jsonpath={.status.succeeded}"); ended != strconv.Itoa(pods) {
			return "ended: " + ended
		}
		return ""
	})
	<-time.After(32 * time.Second) // two exports
	used := b.numbers(`sum by (part) (last_over_time(`+cpu+`}[20m]))`, "part")
	for l := range strings.Lines(b.must("kubectl", "-n", "shop", "get", "pods", "-l", "job-name=going-on", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)) {
		name, uid, _ := strings.Cut(strings.TrimSpace(l), " ")
		want, ok := groups.container(uid)
		if got := used[name+"/main"]; !ok || math.Abs(got-want) > want/100 {
			t.Errorf("%s: its control group has %.3f s (%v), charged are %.3f", name, want, ok, got)
		} else {
			t.Logf("%s: its control group has %.3f s, charged are %.3f (%+.2f %%)", name, want, got, (got-want)/want*100)
		}
	}
	for _, q := range []string{`resets(` + cpu + `}[20m]) > 0`, `last_over_time(reckon_workload_cpu_seconds_total{owner="kubernetes"}[5m])`} {
		if list, err := b.query(q); err != nil || len(list) > 0 {
			t.Errorf("%s: %v %v", q, list, err)
		}
	}
	b.must("kubectl", "-n", "shop", "delete", "job/going-on", "pod/afterwards", "--wait")
}
