package graphfeed

import (
	"context"
	"log/slog"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// resource is a kind of objects that is watched.
type resource struct {
	kind, plural string
	group        func(kubernetes.Interface) rest.Interface
	namespaced   bool
	example      runtime.Object
}

func resources() []resource {
	ofApps := func(c kubernetes.Interface) rest.Interface { return c.AppsV1().RESTClient() }
	ofCore := func(c kubernetes.Interface) rest.Interface { return c.CoreV1().RESTClient() }
	ofBatch := func(c kubernetes.Interface) rest.Interface { return c.BatchV1().RESTClient() }
	return []resource{
		{"Node", "nodes", ofCore, false, &core.Node{}},
		{"Deployment", "deployments", ofApps, true, &apps.Deployment{}},
		{"StatefulSet", "statefulsets", ofApps, true, &apps.StatefulSet{}},
		{"DaemonSet", "daemonsets", ofApps, true, &apps.DaemonSet{}},
		{"ReplicaSet", "replicasets", ofApps, true, &apps.ReplicaSet{}},
		{"Job", "jobs", ofBatch, true, &batch.Job{}},
		{"Pod", "pods", ofCore, true, &core.Pod{}},
	}
}

// transform keeps of an object what its subgraph is made of. One that cannot be read, such as one with an annotation that is no
// quantity, is described by its name alone.
func (r *resource) transform(log *slog.Logger) cache.TransformFunc {
	return func(o any) (any, error) {
		in, ok := o.(metav1.Object)
		if _, done := o.(*thing); done || !ok {
			return o, nil
		}
		t, err := read(r.kind, in)
		if err != nil {
			log.Warn("an object of the cluster cannot be described", "kind", r.kind, "namespace", in.GetNamespace(), "name", in.GetName(),
				"error", err)
			t = bare(r.kind, in)
		}
		return t, nil
	}
}

// pageSize is how many objects are listed at once: whole objects are large, and of each only a little is kept.
const pageSize = 500

// listerWatcher lists and watches a resource in a namespace, empty for all.
func (r *resource) listerWatcher(c kubernetes.Interface, namespace string, log *slog.Logger) cache.ListerWatcher {
	get := func(o metav1.ListOptions) *rest.Request {
		return r.group(c).Get().NamespaceIfScoped(namespace, namespace != "" && r.namespaced).Resource(r.plural).VersionedParams(&o,
			metav1.ParameterCodec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return r.list(ctx, get, r.transform(log))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return get(o).Watch(ctx)
		},
	}
}

// list lists all objects by pages, and keeps of each what transform keeps.
func (r *resource) list(ctx context.Context, get func(metav1.ListOptions) *rest.Request, transform cache.TransformFunc) (*metav1.List,
	error) {
	out := &metav1.List{}
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := get(o).Do(ctx).Get()
		if err != nil {
			return nil, err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(page, func(item runtime.Object) error {
			kept, err := transform(item)
			if err == nil {
				out.Items = append(out.Items, runtime.RawExtension{Object: kept.(runtime.Object)})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		out.ResourceVersion, o.Continue = about.GetResourceVersion(), about.GetContinue()
		if o.Continue == "" {
			return out, nil
		}
	}
}
