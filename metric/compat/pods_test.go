package compat

import (
	"maps"
	"strings"
	"testing"
)

// cart is the agent's export for a container of a Deployment, its init container and the sandbox of its pod.
func cart() map[string]float64 {
	const (
		of      = "workload=deployment/shop/cart,kind=deployment,part=cart-5d4-x/app,owner=shop"
		setup   = "workload=deployment/shop/cart,kind=deployment,part=cart-5d4-x/setup,owner=shop"
		sandbox = "workload=deployment/shop/cart,kind=deployment,part=cart-5d4-x,owner=shop"
		pod     = ",namespace=shop,pod=cart-5d4-x,uid=u1"
	)
	return map[string]float64{
		"reckon_container_info{" + of + pod + ",container=app,type=main,image=shop/cart:1,container_id=c1,qos=Burstable}":                                                      1,
		"reckon_container_info{" + setup + pod + ",container=setup,type=init,image=busybox:1,container_id=c0,qos=Burstable}":                                                   1,
		"reckon_container_info{" + sandbox + pod + ",container=,type=sandbox,image=,container_id=s1,qos=Burstable}":                                                            1,
		"reckon_pod_info{" + sandbox + pod + ",owner_kind=ReplicaSet,owner_name=cart-5d4,ip=10.244.0.9,host_ip=10.0.0.7,priority_class=high,host_network=false,qos=Burstable}": 1,
		"reckon_pod_phase{" + sandbox + ",phase=Running}": 1,
		"reckon_pod_ready{" + sandbox + "}":               1, "reckon_container_ready{" + of + "}": 1, "reckon_container_ready{" + setup + "}": 1,
		"reckon_pod_created_time_seconds{" + sandbox + "}":                                1795327203,
		"reckon_pod_network_bytes_total{" + sandbox + ",device=eth0,direction=receive}":   1226,
		"reckon_pod_network_bytes_total{" + sandbox + ",device=net1,direction=transmit}":  586,
		"reckon_pod_network_packets_total{" + sandbox + ",device=eth0,direction=receive}": 15,
		"reckon_pod_network_errors_total{" + sandbox + ",device=eth0,direction=transmit}": 3,
		"reckon_pod_network_dropped_total{" + sandbox + ",device=eth0,direction=receive}": 2,
		"reckon_pod_cpu_seconds_total{" + sandbox + ",mode=user}":                         11, "reckon_pod_cpu_seconds_total{" + sandbox + ",mode=system}": 4,
		"reckon_pod_memory_bytes{" + sandbox + ",type=working_set}": 160, "reckon_pod_memory_bytes{" + sandbox + ",type=anon}": 80,
		"reckon_pod_io_bytes_total{" + sandbox + ",direction=write}": 12, "reckon_pod_memory_peak_bytes{" + sandbox + "}": 300,
		"reckon_workload_cpu_seconds_total{" + of + ",mode=user}":                                            8,
		"reckon_workload_cpu_seconds_total{" + of + ",mode=system}":                                          2,
		"reckon_workload_cpu_seconds_total{" + sandbox + ",mode=user}":                                       1,
		"reckon_workload_processes{" + of + "}":                                                              3,
		"reckon_workload_processes{" + sandbox + "}":                                                         1,
		"reckon_workload_memory_bytes{" + of + ",type=anon}":                                                 70,
		"reckon_workload_memory_bytes{" + of + ",type=file}":                                                 20,
		"reckon_workload_memory_bytes{" + of + ",type=shmem}":                                                10,
		"reckon_container_memory_usage_bytes{" + of + "}":                                                    150,
		"reckon_container_memory_working_set_bytes{" + of + "}":                                              130,
		"reckon_container_storage_bytes{" + of + ",type=writable_layer}":                                     30,
		"reckon_container_storage_bytes{" + of + ",type=logs}":                                               5,
		"reckon_container_cpu_periods_total{" + of + "}":                                                     9,
		"reckon_container_cpu_throttled_periods_total{" + of + "}":                                           4,
		"reckon_container_request_cores{" + of + "}":                                                         0.2,
		"reckon_container_request_memory_bytes{" + of + "}":                                                  64,
		"reckon_container_limit_cores{" + of + "}":                                                           0.3,
		"reckon_container_limit_memory_bytes{" + of + "}":                                                    128,
		"reckon_workload_limit_memory_bytes{workload=deployment/shop/cart,kind=deployment,part=,owner=shop}": 128,
		"reckon_container_restarts_total{" + of + "}":                                                        2,
		"reckon_container_restarts_total{" + setup + "}":                                                     0,
		"reckon_container_running{" + of + "}":                                                               1,
		"reckon_container_exit_code{" + of + ",reason=OOMKilled}":                                            137,
		"reckon_container_exit_code{" + setup + ",reason=Completed}":                                         0,
	}
}

// TestCAdvisorPods: containers of pods have the kubelet's labels and figures.
func TestCAdvisorPods(t *testing.T) {
	const (
		l   = "{id=/kubepods/burstable/podu1/c1,container=app,name=c1,namespace=shop,pod=cart-5d4-x,image=shop/cart:1"
		box = "{id=/kubepods/burstable/podu1/s1,name=s1,namespace=shop,pod=cart-5d4-x,image=unknown" // the sandbox is no container
		all = "{id=/kubepods/burstable/podu1,namespace=shop,pod=cart-5d4-x"
	)
	now := 1_800_000_010.0
	want(t, show(t, CAdvisor("n1"), cart(), cart()), map[string]float64{
		"container_cpu_usage_seconds_total" + l + ",cpu=total}": 10, "container_cpu_user_seconds_total" + l + "}": 8, "container_cpu_system_seconds_total" + l + "}": 2,
		"container_cpu_usage_seconds_total" + box + ",cpu=total}": 1, "container_cpu_user_seconds_total" + box + "}": 1,
		"container_network_receive_bytes_total" + box + ",interface=eth0}": 1226, "container_network_transmit_bytes_total" + box + ",interface=net1}": 586,
		"container_network_receive_packets_total" + box + ",interface=eth0}": 15, "container_network_transmit_errors_total" + box + ",interface=eth0}": 3,
		"container_network_receive_packets_dropped_total" + box + ",interface=eth0}": 2,
		"container_memory_usage_bytes" + l + "}":                                     150, "container_memory_working_set_bytes" + l + "}": 130,
		"container_memory_rss" + l + "}": 70, "container_memory_cache" + l + "}": 30,
		"container_cpu_cfs_periods_total" + l + "}": 9, "container_cpu_cfs_throttled_periods_total" + l + "}": 4,
		"container_spec_cpu_quota" + l + "}": 30000, "container_spec_cpu_period" + l + "}": 100000, "container_spec_cpu_shares" + l + "}": 204,
		"container_spec_memory_limit_bytes" + l + "}": 128, "container_fs_usage_bytes" + l + "}": 35,
		"container_processes" + l + "}": 3, "container_processes" + box + "}": 1,
		"container_cpu_usage_seconds_total" + all + ",cpu=total}": 15, "container_cpu_user_seconds_total" + all + "}": 11,
		"container_cpu_system_seconds_total" + all + "}": 4, "container_memory_working_set_bytes" + all + "}": 160, "container_memory_rss" + all + "}": 80,
		"container_fs_writes_bytes_total" + all + "}": 12, "container_memory_max_usage_bytes" + all + "}": 300,
		"container_last_seen" + l + "}": now, "container_last_seen" + box + "}": now, // but not the init container, which has ended
	})
}

// TestCAdvisorQoS: the control group of a guaranteed pod is outside the QoS class groups.
func TestCAdvisorQoS(t *testing.T) {
	for qos, id := range map[string]string{"Guaranteed": "/kubepods/podu/c", "BestEffort": "/kubepods/besteffort/podu/c"} {
		lines := map[string]float64{"reckon_container_info{workload=pod/a/b,kind=pod,part=m,owner=a,namespace=a,pod=b,uid=u,container=m,type=main,image=i,container_id=c,qos=" + qos + "}": 1, "reckon_workload_processes{workload=pod/a/b,kind=pod,part=m,owner=a}": 2}
		of := "{id=" + id + ",container=m,name=c,namespace=a,pod=b,image=i}"
		want(t, show(t, CAdvisor("n1"), lines, lines), map[string]float64{"container_last_seen" + of: 1_800_000_010, "container_processes" + of: 2})
	}
	// The minimum that the kubelet writes, and values just below and at two shares.
	for cores, shares := range map[float64]float64{0.001: 2, 0.0019: 2, 0.003: 3} {
		const of = "{workload=pod/a/b,kind=pod,part=m,owner=a}"
		lines := map[string]float64{
			"reckon_container_info{workload=pod/a/b,kind=pod,part=m,owner=a,namespace=a,pod=b,uid=u,container=m,type=main,image=i,container_id=c,qos=}": 1,
			"reckon_container_request_cores" + of: cores,
		}
		got := show(t, CAdvisor("n1"), lines, lines)
		if v := got["container_spec_cpu_shares{id=/kubepods/podu/c,container=m,name=c,namespace=a,pod=b,image=i}"]; v != shares {
			t.Errorf("%v cores are %v shares, want %v", cores, v, shares)
		}
	}
}

// TestKube checks the series that dashboards join on, under the names of kube-state-metrics.
func TestKube(t *testing.T) {
	const p = "{namespace=shop,pod=cart-5d4-x,uid=u1"
	const c = p + ",container=app"
	expected := map[string]float64{
		"kube_pod_info" + p + ",host_ip=10.0.0.7,pod_ip=10.244.0.9,node=n1,created_by_kind=ReplicaSet,created_by_name=cart-5d4,priority_class=high,host_network=false}": 1,
		"kube_pod_owner" + p + ",owner_kind=ReplicaSet,owner_name=cart-5d4,owner_is_controller=true}":                                                                   1,
		"kube_replicaset_owner{namespace=shop,replicaset=cart-5d4,owner_kind=Deployment,owner_name=cart,owner_is_controller=true}":                                      1,
		"kube_pod_status_phase" + p + ",phase=Running}": 1, "kube_pod_status_phase" + p + ",phase=Pending}": 0, "kube_pod_status_phase" + p + ",phase=Failed}": 0,
		"kube_pod_status_phase" + p + ",phase=Succeeded}": 0, "kube_pod_status_phase" + p + ",phase=Unknown}": 0,
		"kube_pod_status_qos_class" + p + ",qos_class=Burstable}": 1,
		"kube_pod_status_ready" + p + ",condition=true}":          1, "kube_pod_status_ready" + p + ",condition=false}": 0,
		"kube_pod_status_ready" + p + ",condition=unknown}": 0,
		"kube_pod_container_status_ready" + c + "}":         1, "kube_pod_init_container_status_ready" + p + ",container=setup}": 1,
		"kube_pod_created" + p + "}":                                                                  1795327203,
		"kube_pod_container_info" + c + ",image=shop/cart:1,container_id=c1}":                         1,
		"kube_pod_init_container_info" + p + ",container=setup,image=busybox:1,container_id=c0}":      1,
		"kube_pod_container_status_restarts_total" + c + "}":                                          2,
		"kube_pod_init_container_status_restarts_total" + p + ",container=setup}":                     0,
		"kube_pod_init_container_status_terminated" + p + ",container=setup}":                         1,
		"kube_pod_init_container_status_terminated_reason" + p + ",container=setup,reason=Completed}": 1,
		"kube_pod_container_status_running" + c + "}":                                                 1,
		"kube_pod_container_status_last_terminated_reason" + c + ",reason=OOMKilled}":                 1,
		"kube_pod_container_status_last_terminated_exitcode" + c + "}":                                137,
		"kube_pod_container_resource_requests" + c + ",node=n1,resource=cpu,unit=core}":               0.2,
		"kube_pod_container_resource_requests" + c + ",node=n1,resource=memory,unit=byte}":            64,
		"kube_pod_container_resource_limits" + c + ",node=n1,resource=cpu,unit=core}":                 0.3,
		"kube_pod_container_resource_limits" + c + ",node=n1,resource=memory,unit=byte}":              128,
	}
	want(t, show(t, Kube("n1"), cart(), cart()), expected)

	// It crashed and waits; then it ended for good.
	const of = "workload=deployment/shop/cart,kind=deployment,part=cart-5d4-x/app,owner=shop"
	crashed, waiting := cart(), maps.Clone(expected)
	crashed["reckon_container_running{"+of+"}"] = 0
	crashed["reckon_container_waiting{"+of+",reason=CrashLoopBackOff}"] = 1
	waiting["kube_pod_container_status_running"+c+"}"] = 0
	waiting["kube_pod_container_status_waiting"+c+"}"] = 1
	waiting["kube_pod_container_status_waiting_reason"+c+",reason=CrashLoopBackOff}"] = 1
	want(t, show(t, Kube("n1"), cart(), crashed), waiting)
	ended, over := cart(), maps.Clone(expected)
	ended["reckon_container_running{"+of+"}"] = 0
	over["kube_pod_container_status_running"+c+"}"] = 0
	delete(over, "kube_pod_container_status_last_terminated_reason"+c+",reason=OOMKilled}")
	delete(over, "kube_pod_container_status_last_terminated_exitcode"+c+"}")
	over["kube_pod_container_status_terminated"+c+"}"] = 1
	over["kube_pod_container_status_terminated_reason"+c+",reason=OOMKilled}"] = 1
	want(t, show(t, Kube("n1"), cart(), ended), over)
	// It ended again, and is neither restarted nor in back-off yet: the earlier end remains the last one.
	ended["reckon_container_previous_exit_code{"+of+",reason=Error}"] = 3
	over["kube_pod_container_status_last_terminated_reason"+c+",reason=Error}"] = 1
	over["kube_pod_container_status_last_terminated_exitcode"+c+"}"] = 3
	want(t, show(t, Kube("n1"), cart(), ended), over)
}

// TestKubeOwners: the owner is the controller of the pod, and the owner's owner is reckon's workload.
func TestKubeOwners(t *testing.T) {
	for _, test := range []struct {
		workload, kind, ownerKind, ownerName string
		want                                 map[string]float64
	}{
		{"cronjob/a/tick", "cronjob", "Job", "tick-29922198", map[string]float64{
			"kube_pod_owner{namespace=a,pod=p,uid=u,owner_kind=Job,owner_name=tick-29922198,owner_is_controller=true}":       1,
			"kube_job_owner{namespace=a,job_name=tick-29922198,owner_kind=CronJob,owner_name=tick,owner_is_controller=true}": 1}},
		{"jobset/a/train", "jobset", "Job", "train-workers-0", map[string]float64{
			"kube_pod_owner{namespace=a,pod=p,uid=u,owner_kind=Job,owner_name=train-workers-0,owner_is_controller=true}":       1,
			"kube_job_owner{namespace=a,job_name=train-workers-0,owner_kind=JobSet,owner_name=train,owner_is_controller=true}": 1}},
		{"job/a/once", "job", "Job", "once", map[string]float64{
			"kube_pod_owner{namespace=a,pod=p,uid=u,owner_kind=Job,owner_name=once,owner_is_controller=true}": 1}},
		{"rollout/a/web", "rollout", "ReplicaSet", "web-6f", map[string]float64{
			"kube_pod_owner{namespace=a,pod=p,uid=u,owner_kind=ReplicaSet,owner_name=web-6f,owner_is_controller=true}":        1,
			"kube_replicaset_owner{namespace=a,replicaset=web-6f,owner_kind=Rollout,owner_name=web,owner_is_controller=true}": 1}},
		{"pod/a/p", "pod", "", "", map[string]float64{
			"kube_pod_owner{namespace=a,pod=p,uid=u,owner_kind=<none>,owner_name=<none>,owner_is_controller=<none>}": 1}},
	} {
		of := "workload=" + test.workload + ",kind=" + test.kind + ",part=p,owner=a"
		lines := map[string]float64{
			"reckon_container_info{" + of + ",namespace=a,pod=p,uid=u,container=,type=sandbox,image=,container_id=s,qos=}":                                                        1,
			"reckon_pod_info{" + of + ",namespace=a,pod=p,uid=u,owner_kind=" + test.ownerKind + ",owner_name=" + test.ownerName + ",ip=,priority_class=,host_network=false,qos=}": 1,
		}
		got := show(t, Kube("n1"), lines, lines)
		maps.DeleteFunc(got, func(k string, _ float64) bool { return len(k) > 13 && k[:13] == "kube_pod_info" })
		want(t, got, test.want)
	}
}

// TestKeplerPods: energy of a container goes to it and to its pod, the sandbox's only to the pod.
func TestKeplerPods(t *testing.T) {
	lines := cart()
	for part, joules := range map[string]float64{"cart-5d4-x/app": 60, "cart-5d4-x": 2} {
		lines["reckon_workload_energy_joules_total{workload=deployment/shop/cart,kind=deployment,part="+part+",owner=shop,domain=package,share=active,method=measured}"] = joules
	}
	got := show(t, Kepler("n1"), lines, lines)
	maps.DeleteFunc(got, func(k string, _ float64) bool { return !strings.Contains(k, "_joules_total{") })
	want(t, got, map[string]float64{
		"kepler_container_cpu_joules_total{container_id=c1,container_name=app,state=running,zone=package,pod_id=u1,node_name=n1}": 60,
		"kepler_pod_cpu_joules_total{pod_id=u1,pod_name=cart-5d4-x,pod_namespace=shop,state=running,zone=package,node_name=n1}":   62,
	})
}
