// Package crd holds the custom resource definitions of the operator, as they are installed.
package crd

import (
	_ "embed"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed metricsets.yaml
var metricSets []byte

//go:embed metricruns.yaml
var metricRuns []byte

// Label marks the custom resource definitions that this operator installed. A definition without the label belongs to
// another owner, and the operator changes it only with --adopt.
const (
	Label      = "app.kubernetes.io/part-of"
	LabelValue = "reckon"
)

// MetricSets returns the definition of MetricSet.
func MetricSets() (*apiextensions.CustomResourceDefinition, error) { return decode(metricSets) }

// MetricRuns returns the definition of MetricRun.
func MetricRuns() (*apiextensions.CustomResourceDefinition, error) { return decode(metricRuns) }

func decode(data []byte) (*apiextensions.CustomResourceDefinition, error) {
	var d apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &d); err != nil {
		return nil, err
	}
	return &d, nil
}
