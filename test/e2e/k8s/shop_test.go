//go:build e2e_k8s

package k8s

// object is one object of Kubernetes.
type object = map[string]any

func named(kind, apiVersion, name string, spec any) object {
	return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name, "namespace": "shop"}, "spec": spec}
}

const (
	// burn takes about a tenth of a core for as long as it is left alone.
	burn = "while :; do i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; sleep 0.1; done"
	// brief takes a part of a second and ends.
	brief = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
)

func container(name, script string) object {
	return object{"name": name, "image": "k8sbed.local/busybox:1", "command": []string{"sh", "-c", script},
		"resources": object{"requests": object{"cpu": "20m", "memory": "16Mi"}, "limits": object{"cpu": "300m", "memory": "64Mi"}}}
}

// pod is the spec of a pod on the first node: one with a kernel of its own may be slow.
func pod(restart string, containers ...object) object {
	return object{"restartPolicy": restart, "terminationGracePeriodSeconds": 0, "containers": containers, "nodeSelector": onFirst}
}

var onFirst = object{"kubernetes.io/hostname": "node0"}

// template makes the pod template of a controller, with pods that carry the labels app and team.
func template(app string, spec object) object {
	return object{"metadata": object{"labels": object{"app": app, "team": "checkout"}}, "spec": spec}
}

func selector(app string) object { return object{"matchLabels": object{"app": app}} }

// owners are one workload of each kind of owner, by the id that reckon gives it.
func owners() map[string]object {
	burning := func(app string) object { return template(app, pod("Always", container("main", burn))) }
	job := func(script string) object {
		return object{"backoffLimit": 0, "template": template("job", pod("Never", container("main", script)))}
	}
	return map[string]object{
		"deployment/shop/cart":    named("Deployment", "apps/v1", "cart", object{"replicas": 2, "selector": selector("cart"), "template": burning("cart")}),
		"replicaset/shop/bareset": named("ReplicaSet", "apps/v1", "bareset", object{"replicas": 1, "selector": selector("bareset"), "template": burning("bareset")}),
		"statefulset/shop/db":     named("StatefulSet", "apps/v1", "db", object{"replicas": 1, "serviceName": "db", "selector": selector("db"), "template": burning("db")}),
		"daemonset/shop/log":      named("DaemonSet", "apps/v1", "log", object{"selector": selector("log"), "template": burning("log")}),
		"job/shop/once":           named("Job", "batch/v1", "once", job(burn)),
		"cronjob/shop/tick":       named("CronJob", "batch/v1", "tick", object{"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": object{"spec": job(brief + "; sleep 20")}}),
		"jobset/shop/train": named("JobSet", "jobset.x-k8s.io/v1alpha2", "train", object{"replicatedJobs": []any{
			object{"name": "workers", "replicas": 2, "template": object{"spec": job(burn)}}}}),
		"pod/shop/bare": named("Pod", "v1", "bare", pod("Always", container("main", burn))),
	}
}

// kinds is a pod with a container of each kind but the ephemeral one, which is added when it runs.
func kinds() object {
	spec := pod("Always", container("main", burn), container("second", burn))
	sidecar := container("proxy", burn)
	sidecar["restartPolicy"] = "Always"
	spec["initContainers"] = []object{container("setup", brief), sidecar}
	return named("Pod", "v1", "kinds", spec)
}

// crashing ends with code 3 as often as it is begun; hungry takes more memory than it may.
func crashing() object {
	return named("Pod", "v1", "crashing", pod("Always", container("main", brief+"; exit 3")))
}

func hungry(name, script string) object {
	return named("Pod", "v1", name, pod("Never", container("main", script)))
}
