package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is of these types.
var GroupVersion = schema.GroupVersion{Group: "flux-framework.org", Version: "v1alpha2"}

// AddToScheme makes the types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MetricSet{}, &MetricSetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
