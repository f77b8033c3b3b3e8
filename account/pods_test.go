package account

import (
	"strings"
	"testing"

	"reckon/sensor"
	"reckon/workload"
)

// TestPodReports: the report of a whole pod appears at its sandbox, once; a phase that changes replaces the one before.
func TestPodReports(t *testing.T) {
	r, c, running := pods(t, 1, false, workload.Amounts{})
	const at = "|deployment/shop/cart|deployment|cart-a|shop"
	step := func(phase, ip, ready string, want map[string]float64) {
		t.Helper()
		f := c.reports["a/p"]
		f.OwnerKind, f.OwnerName, f.Phase, f.IP, f.Priority, f.QoS, f.Created = "ReplicaSet", "cart-5d4", phase, ip, "high", "Burstable", 1795327203
		f.HostIP, f.PodReady = "10.0.0.7", ready
		r.tick(0, running(0))
		r.export()
		got := 0
		for k := range r.values {
			if strings.HasPrefix(k, "reckon_pod_") {
				got++
			}
		}
		for k, v := range want {
			if have, ok := r.values["reckon_pod_"+k]; !ok || have != v {
				t.Errorf("%s: %s is %v, %v, want %v", phase, k, have, ok, v)
			}
		}
		if got != len(want) {
			t.Errorf("%s: %d series of the pod, want %d: %v", phase, got, len(want), r.values)
		}
	}
	info := func(ip string) string {
		return "info" + at + "|shop|cart-a|a|ReplicaSet|cart-5d4|" + ip + "|10.0.0.7|high|false|Burstable"
	}
	step("Pending", "", "", map[string]float64{info(""): 1, "phase" + at + "|Pending": 1, "created_time_seconds" + at: 1795327203})
	running1 := map[string]float64{info("10.244.0.9"): 1, "phase" + at + "|Running": 1, "created_time_seconds" + at: 1795327203, "ready" + at: 0}
	step("Running", "10.244.0.9", "False", running1)
	running1["ready"+at] = 1
	step("Running", "10.244.0.9", "True", running1)
}

// TestContainerGroup: memory and periods in the kubelet's terms, from the container's own control group; no series for
// figures that the control group lacks.
func TestContainerGroup(t *testing.T) {
	r, c, running := pods(t, 1, false, workload.Amounts{})
	const at = "|deployment/shop/cart|deployment|cart-a/app|shop"
	check := func(what string, g sensor.Cgroup, want map[string]float64) {
		t.Helper()
		g.Have |= sensor.CgroupCPU
		g.UsageNanos = c.containers[10].cg.UsageNanos + second/10
		c.containers[10].cg = g
		c.reports["a/c"].Running, c.reports["a/c"].Ready = true, true
		r.tick(0, running(0))
		r.export()
		for _, name := range []string{"memory_usage_bytes", "memory_working_set_bytes", "cpu_periods_total", "cpu_throttled_periods_total"} {
			have, ok := r.values["reckon_container_"+name+at]
			if v, wanted := want[name]; ok != wanted || have != v {
				t.Errorf("%s: %s is %v, %v, want %v, %v", what, name, have, ok, v, wanted)
			}
		}
	}
	if check("nothing", sensor.Cgroup{}, nil); r.values["reckon_container_running"+at] != 1 || r.values["reckon_container_ready"+at] != 1 {
		t.Error("it runs")
	}
	check("without inactive pages", sensor.Cgroup{Have: sensor.CgroupMemory, Current: 100}, map[string]float64{"memory_usage_bytes": 100})
	check("all of it", sensor.Cgroup{Have: sensor.CgroupMemory | sensor.CgroupInactive | sensor.CgroupThrottle | sensor.CgroupPeriods, Current: 100, InactiveFile: 30, Periods: 9, ThrottledPeriods: 4},
		map[string]float64{"memory_usage_bytes": 100, "memory_working_set_bytes": 70, "cpu_periods_total": 9, "cpu_throttled_periods_total": 4})
	check("more inactive than charged", sensor.Cgroup{Have: sensor.CgroupMemory | sensor.CgroupInactive, Current: 100, InactiveFile: 101},
		map[string]float64{"memory_usage_bytes": 100, "memory_working_set_bytes": 0})
	check("no limit, no periods", sensor.Cgroup{Have: sensor.CgroupThrottle | sensor.CgroupPeriods}, nil)
	c.reports["a/c"].Running = false
	r.tick(0, running(0))
	if r.export(); r.values["reckon_container_running"+at] != 0 {
		t.Error("it runs no more")
	}
}
