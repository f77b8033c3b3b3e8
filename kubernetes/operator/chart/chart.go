// Package chart renders the Helm chart of deploy/helm/reckon as `helm install` does, for its tests
// and for deploy/kustomize, which is rendered from it. It connects to no cluster; a [Cluster]
// provides the objects that the chart looks up.
package chart

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

// Release is one installation of the chart.
type Release struct {
	Name, Namespace string
	Kubernetes      string // version of the cluster, such as v1.34.4
	Values          map[string]any
	// Cluster holds the objects that are there already.
	Cluster []Object
}

// Object is one object of Kubernetes.
type Object map[string]any

// Kind returns the kind of the object.
func (o Object) Kind() string { s, _ := o["kind"].(string); return s }

// Name returns the name of the object.
func (o Object) Name() string {
	m, _ := o["metadata"].(map[string]any)
	s, _ := m["name"].(string)
	return s
}

// Load reads the chart in a folder.
func Load(dir string) (*chart.Chart, error) { return loader.LoadDir(dir) }

// Render returns the objects of a release in the order of their files, and the notes.
func (r *Release) Render(c *chart.Chart) (objects []Object, notes string, err error) {
	caps := common.DefaultCapabilities.Copy()
	kube, err := common.ParseKubeVersion(r.Kubernetes)
	if err != nil {
		return nil, "", err
	}
	caps.KubeVersion = *kube
	values, err := util.ToRenderValues(c, r.Values,
		common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}, caps)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.RenderWithClientProvider(c, values, r)
	if err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch text := files[name]; {
		case path.Base(name) == "NOTES.txt":
			notes = text
		case path.Ext(name) == ".yaml":
			for _, doc := range strings.Split(text, "\n---\n") {
				if strings.TrimSpace(strings.TrimPrefix(doc, "---")) == "" {
					continue
				}
				var o Object
				if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
					return nil, "", fmt.Errorf("%s: %w\n%s", name, err, doc)
				}
				objects = append(objects, o)
			}
		}
	}
	return objects, notes, nil
}

// GetClientFor implements engine.ClientProvider. The chart function lookup finds the objects in Cluster.
func (r *Release) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, false, err
	}
	resource := gv.WithResource(strings.ToLower(kind) + "s")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: kind + "List"})
	for _, o := range r.Cluster {
		if o.Kind() != kind {
			continue
		}
		u := &unstructured.Unstructured{Object: o}
		if _, err := client.Resource(resource).Namespace(u.GetNamespace()).Create(context.Background(), u,
			metav1.CreateOptions{}); err != nil {
			return nil, false, err
		}
	}
	return client.Resource(resource), true, nil
}
