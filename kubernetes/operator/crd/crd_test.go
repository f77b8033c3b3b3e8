package crd

import (
	"os"
	"reflect"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestSameSpec holds our MetricSet against that of the metrics-operator: every field it has, with its
// type and default, stands in ours, so that no file of it is refused for its shape.
func TestSameSpec(t *testing.T) {
	ours, err := MetricSets()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../metricset/testdata/original-crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	original, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if ours.Name != original.Name || ours.Spec.Group != original.Spec.Group || !reflect.DeepEqual(ours.Spec.Names, original.Spec.Names) || ours.Spec.Scope != original.Spec.Scope {
		t.Errorf("names differ: %+v, want %+v", ours.Spec.Names, original.Spec.Names)
	}
	if ours.Labels[Label] != LabelValue {
		t.Error("our label is missing")
	}
	want := original.Spec.Versions[0]
	for _, have := range ours.Spec.Versions {
		if have.Subresources == nil || have.Subresources.Status == nil || !have.Served {
			t.Errorf("%s: no status subresource, or not served", have.Name)
		}
		sameFields(t, have.Name+".spec", have.Schema.OpenAPIV3Schema.Properties["spec"], want.Schema.OpenAPIV3Schema.Properties["spec"])
	}
}

func sameFields(t *testing.T, at string, have, want apiextensions.JSONSchemaProps) {
	if have.Type != want.Type || have.Format != want.Format || have.XIntOrString != want.XIntOrString || !reflect.DeepEqual(have.Default, want.Default) || !reflect.DeepEqual(have.Required, want.Required) {
		t.Errorf("%s differs: %+v, want %+v", at, have, want)
	}
	for name, w := range want.Properties {
		h, there := have.Properties[name]
		if !there {
			t.Errorf("%s.%s is missing", at, name)
			continue
		}
		sameFields(t, at+"."+name, h, w)
	}
	if want.Items != nil && want.Items.Schema != nil {
		if have.Items == nil || have.Items.Schema == nil {
			t.Errorf("%s: items are missing", at)
			return
		}
		sameFields(t, at+"[]", *have.Items.Schema, *want.Items.Schema)
	}
	if want.AdditionalProperties != nil && want.AdditionalProperties.Schema != nil {
		if have.AdditionalProperties == nil {
			t.Errorf("%s: values are missing", at)
			return
		}
		sameFields(t, at+"{}", *have.AdditionalProperties.Schema, *want.AdditionalProperties.Schema)
	}
}
