package metricset

import (
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"
)

// checkTypes names the first option or resource of a document that is neither a number nor a text, as the API server does.
func checkTypes(doc []byte) error {
	var root struct {
		Spec struct {
			Pods, DeadlineSeconds any
			Resources             map[string]any
			Metrics               []struct {
				rawOptions
				Resources struct{ Limits, Requests map[string]any }
				Addons    []rawOptions
			}
		}
	}
	if yaml.Unmarshal(doc, &root) != nil {
		return nil // the strict reader reports the error
	}
	for name, v := range map[string]any{"pods": root.Spec.Pods, "deadlineSeconds": root.Spec.DeadlineSeconds} {
		if text, quoted := v.(string); quoted {
			return fmt.Errorf("spec.%s: %q is a text, and a number is needed; write it without quotes", name, shorten(text))
		}
	}
	if err := checkScalars("spec.resources", root.Spec.Resources); err != nil {
		return err
	}
	for i, m := range root.Spec.Metrics {
		at := fmt.Sprintf("spec.metrics[%d]", i)
		for _, err := range []error{m.checkTypes(at), checkScalars(at+".resources.limits", m.Resources.Limits),
			checkScalars(at+".resources.requests", m.Resources.Requests)} {
			if err != nil {
				return err
			}
		}
		for j, a := range m.Addons {
			if err := a.checkTypes(fmt.Sprintf("%s.addons[%d]", at, j)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rawOptions are the options of a metric or an add-on as written, of any type.
type rawOptions struct {
	Options     map[string]any
	ListOptions map[string][]any
	MapOptions  map[string]map[string]any
}

func (w *rawOptions) checkTypes(at string) error {
	if err := checkScalars(at+".options", w.Options); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(w.ListOptions)) {
		for i, v := range w.ListOptions[name] {
			if err := checkScalar(fmt.Sprintf("%s.listOptions.%s[%d]", at, name, i), v); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.MapOptions)) {
		if err := checkScalars(at+".mapOptions."+name, w.MapOptions[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkScalars(at string, list map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if err := checkScalar(at+"."+name, list[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkScalar checks that a value is a whole number or a text. YAML reads true, no and 0.5 as neither.
func checkScalar(field string, v any) error {
	switch v := v.(type) {
	case string:
		return nil
	case bool:
		return fmt.Errorf("%s: %v is neither a number nor a text; write it in quotes: %q", field, v, fmt.Sprint(v))
	case float64:
		if v == float64(int64(v)) {
			return nil
		}
		return fmt.Errorf("%s: %v is no whole number; write one, or a text in quotes such as %q", field, v, fmt.Sprint(v))
	case nil:
		return fmt.Errorf("%s: has no value; leave it out or give one", field)
	case []any:
		return fmt.Errorf("%s: is a list, and one value is needed; lists are written under listOptions", field)
	}
	return fmt.Errorf("%s: is a map, and one value is needed; maps are written under mapOptions", field)
}
