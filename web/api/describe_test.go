package api

import (
	"encoding/json"
	"testing"
)

// TestNoStaleDescription finds descriptions of removed fields. Workload is
// embedded in WorkloadDetail and a type of its own.
func TestNoStaleDescription(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal(document((&server{}).routes(), ""), &doc); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for name, s := range doc.Components.Schemas {
		shown[name] = true
		for _, p := range s.Properties {
			shown[p.Description] = true
		}
	}
	for key, text := range descriptions() {
		if !shown[key] && !shown[text] {
			t.Errorf("%s is described and does not exist", key)
		}
	}
}
