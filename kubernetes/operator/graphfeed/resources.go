package graphfeed

import (
	"context"
	"log/slog"
	"slices"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// resource is a kind of objects that is watched.
type resource struct {
	kind, plural string
	group        func(*clients) rest.Interface
	optional     bool // not every cluster serves it
	namespaced   bool
	example      runtime.Object
}

func resources() []resource {
	ofApps := func(c *clients) rest.Interface { return c.AppsV1().RESTClient() }
	ofCore := func(c *clients) rest.Interface { return c.CoreV1().RESTClient() }
	ofBatch := func(c *clients) rest.Interface { return c.BatchV1().RESTClient() }
	ofJobSets := func(c *clients) rest.Interface { return c.jobSets }
	return []resource{
		{"Node", "nodes", ofCore, false, false, &core.Node{}},
		{"Deployment", "deployments", ofApps, false, true, &apps.Deployment{}},
		{"StatefulSet", "statefulsets", ofApps, false, true, &apps.StatefulSet{}},
		{"DaemonSet", "daemonsets", ofApps, false, true, &apps.DaemonSet{}},
		{"ReplicaSet", "replicasets", ofApps, false, true, &apps.ReplicaSet{}},
		{"Job", "jobs", ofBatch, false, true, &batch.Job{}},
		{"CronJob", "cronjobs", ofBatch, false, true, &batch.CronJob{}},
		{"JobSet", "jobsets", ofJobSets, true, true, &jobset.JobSet{}},
		{"Pod", "pods", ofCore, false, true, &core.Pod{}},
	}
}

// clients are the API clients of one cluster.
type clients struct {
	kubernetes.Interface
	jobSets rest.Interface
}

func newClients(config *rest.Config) (*clients, error) {
	plain, err := kubernetes.NewForConfig(rest.CopyConfig(config))
	if err != nil {
		return nil, err
	}
	types := runtime.NewScheme()
	if err := jobset.AddToScheme(types); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(types, jobset.GroupVersion)
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath, own.ContentType = &jobset.GroupVersion, "/apis", runtime.ContentTypeJSON
	own.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	jobSets, err := rest.RESTClientFor(own)
	return &clients{plain, jobSets}, err
}

// isServed reports whether the cluster has the API of the resource.
func (r *resource) isServed(c *clients) (bool, error) {
	if !r.optional {
		return true, nil
	}
	list, err := c.Discovery().ServerResourcesForGroupVersion(r.group(c).APIVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == r.plural }), err
}

// newTransform returns a function that reduces a cached object to the data for its subgraph. An invalid object, such as
// one with an annotation that is not a quantity, is reduced to its name.
func (r *resource) newTransform(log *slog.Logger) cache.TransformFunc {
	return func(o any) (any, error) {
		in, ok := o.(metav1.Object)
		if _, done := o.(*objectRecord); done || !ok {
			return o, nil
		}
		t, err := reduceObject(r.kind, in)
		if err != nil {
			log.Warn("an object of the cluster cannot be described", "kind", r.kind, "namespace", in.GetNamespace(), "name", in.GetName(),
				"error", err)
			t = nameOnly(r.kind, in)
		}
		return t, nil
	}
}

// pageSize is the number of objects per list request. Whole objects are large, and only a small part of each is stored.
const pageSize = 500

// listerWatcher lists and watches a resource in a namespace, empty for all.
func (r *resource) listerWatcher(c *clients, namespace string, log *slog.Logger) cache.ListerWatcher {
	get := func(o metav1.ListOptions) *rest.Request {
		return r.group(c).Get().NamespaceIfScoped(namespace, namespace != "" && r.namespaced).Resource(r.plural).VersionedParams(&o,
			metav1.ParameterCodec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return r.listPages(ctx, get, r.newTransform(log))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return get(o).Watch(ctx)
		},
	}
}

// listPages lists all objects in pages and keeps the part of each that transform returns.
func (r *resource) listPages(ctx context.Context, get func(metav1.ListOptions) *rest.Request, transform cache.TransformFunc) (*metav1.List,
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
