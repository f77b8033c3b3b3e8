package main

import (
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/cutoff"
)

// TestServerAway: the operator is cut off from the API server until its watches are too old to go on (410 Gone). It goes on when the
// server is back: with the sets that came meanwhile, and without those that went.
func TestServerAway(t *testing.T) {
	s := startServer(t)
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.Trim(strings.TrimPrefix(config.Host, "https:"), "/")
	relay := cutoff.New(t, address)
	text, err := os.ReadFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.kubeconfig, []byte(strings.ReplaceAll(string(text), address, relay.Addr())), 0o600); err != nil {
		t.Fatal(err)
	}
	s.operator()
	watcher, err := client.NewWithWatch(config, client.Options{Scheme: s.c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) client.Object {
		return object(t, strings.Replace(demo, "name: demo", "name: "+name, 1))
	}
	begun := func(name string) func() bool {
		return func() bool {
			ms := &v1alpha2.MetricSet{}
			return s.c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, ms) == nil && ms.Status.Run != "" &&
				s.c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &jobset.JobSet{}) == nil
		}
	}
	s.until("the definitions", func() bool { return s.c.List(t.Context(), &v1alpha2.MetricSetList{}) == nil })
	for _, name := range []string{"before", "goes"} {
		if err := s.c.Create(t.Context(), named(name)); err != nil {
			t.Fatal(err)
		}
		s.until("the set "+name, begun(name))
	}
	first := &jobset.JobSet{}
	if err := s.c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "before"}, first); err != nil {
		t.Fatal(err)
	}

	relay.Cut()
	var list v1alpha2.MetricSetList
	if err := s.c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if err := s.c.Delete(t.Context(), named("goes")); err != nil {
		t.Fatal(err)
	}
	if err := s.c.Create(t.Context(), named("meanwhile")); err != nil {
		t.Fatal(err)
	}
	relay.RestartAPIServer(t, func() bool { return s.c.List(t.Context(), &v1alpha2.MetricSetList{}) == nil })
	w, err := watcher.Watch(t.Context(), &v1alpha2.MetricSetList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err == nil {
		e := <-w.ResultChan()
		w.Stop()
		if err = apierrors.FromObject(e.Object); e.Type != watch.Error {
			err = nil
		}
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Fatalf("a watch from before is answered %v, want 410 Gone", err)
	}
	relay.Restore()

	s.until("the set that came meanwhile", begun("meanwhile"))
	if err := s.c.Create(t.Context(), named("after")); err != nil {
		t.Fatal(err)
	}
	s.until("a set that comes afterwards", begun("after"))
	same := &jobset.JobSet{}
	if err := s.c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "before"}, same); err != nil || same.UID != first.UID {
		t.Errorf("the JobSet from before is another one, or is gone: %v", err)
	}
	var runs jobset.JobSetList
	if err := s.c.List(t.Context(), &runs, client.InNamespace("default")); err != nil || len(runs.Items) != 4 { // there is no garbage collector
		t.Errorf("%d JobSets, %v", len(runs.Items), err)
	}
}
