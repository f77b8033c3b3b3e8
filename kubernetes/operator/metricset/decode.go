package metricset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"reckon/kubernetes/operator/api/v1alpha2"
)

// maxFile limits the bytes read from a file. A larger one is no description written by a person.
const maxFile = 16 << 20

// Decode reads the MetricSets of a YAML file and ignores other objects. A field that no version of MetricSet has is an
// error.
func Decode(r io.Reader) (sets []*v1alpha2.MetricSet, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("the file is larger than %d MiB", maxFile>>20)
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return sets, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if head.Kind != "MetricSet" {
			continue
		}
		group, version, _ := strings.Cut(head.APIVersion, "/")
		if group != v1alpha2.GroupVersion.Group || version != "v1alpha2" && version != "v1alpha1" {
			return nil, fmt.Errorf("document %d: apiVersion: %q is none of flux-framework.org/v1alpha2 and v1alpha1", n, head.APIVersion)
		}
		if err := checkTypes(doc); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		ms := &v1alpha2.MetricSet{}
		if err := yaml.UnmarshalStrict(doc, ms); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		ms.APIVersion = v1alpha2.GroupVersion.String()
		sets = append(sets, ms)
	}
}
