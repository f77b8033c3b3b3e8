package custom

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadings(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/class/hwmon/hwmon0/fan1_input": "1200\n",
		"sys/class/hwmon/hwmon7/fan1_input": "600 rpm\n",
		"run/rig.json":                      `{"chambers":[{"pressure":101325.5,"open":true,"text":" 3 ","unknown":null}]}`,
		"sys/flag":                          "0x1f\n",
		"sys/word":                          "on\n",
	})
	scale := 1.0 / 60
	s, err := New(root, []Reading{
		{Name: "board_fan_hertz", Unit: "hertz", Help: "Fan.", File: "/sys/class/hwmon/hwmon*/fan1_input", PathLabel: "device", Scale: &scale, Labels: map[string]string{"place": "front"}},
		{Name: "rig_pascals", File: "/run/rig.json", JSON: "chambers.0.pressure", Offset: -0.5, Workload: "unit/rig.service"},
		{Name: "rig_open", File: "/run/rig.json", JSON: "chambers.0.open"},
		{Name: "rig_text_total", Kind: "counter", File: "/run/rig.json", JSON: "chambers.0.text"},
		{Name: "rig_unknown", File: "/run/rig.json", JSON: "chambers.0.unknown"},
		{Name: "rig_missing", File: "/run/rig.json", JSON: "chambers.1.open"},
		{Name: "flag", File: "/sys/flag"},
		{Name: "word", File: "/sys/word"},
		{Name: "gone", File: "/sys/gone"},
		{Name: "several", File: "/sys/class/hwmon/*/fan1_input"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var p sensor.OwnPass
	s.ReadOwn(&p)
	got := map[string]string{}
	for _, m := range p.Samples {
		got[sensortest.Key(m.Series)] = strings.TrimSpace(fmt.Sprint(m.Value, " ", m.Origin.Workload))
		if !m.Origin.Trusted {
			t.Error("the configuration is the administrator's")
		}
	}
	for _, in := range p.Inputs {
		if in.Err != nil {
			got[in.Name] = strings.ReplaceAll(in.Err.Error(), root, "")
		}
	}
	want := map[string]string{
		`board_fan_hertz{device="0",place="front"}`: "20",
		`board_fan_hertz{device="7",place="front"}`: "10",
		`rig_pascals{}`:    "101325 unit/rig.service",
		`rig_open{}`:       "1",
		`rig_text_total{}`: "3",
		`flag{}`:           "31",
		"rig_missing":      `/run/rig.json: there is no "1" on the way to chambers.1.open`,
		"word":             "/sys/word: it does not begin with a number",
		"gone":             "/sys/gone: no such file or directory",
		"several":          "/sys/class/hwmon/*/fan1_input stands for 2 files; distinguish them with path_label",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	first := p.Samples[0].Series
	p.Reset()
	s.ReadOwn(&p)
	if p.Samples[0].Series != first || first.Desc.Kind != metric.Gauge {
		t.Error("a new pointer for the same series")
	}
}

func TestConfigurationErrors(t *testing.T) {
	zero := 0.0
	for want, r := range map[string]Reading{
		"the name is made of letters":   {Name: "a-b", File: "/f"},
		"ends in _total":                {Name: "a_total", File: "/f"},
		"kind \"meter\": write gauge":   {Name: "a", Kind: "meter", File: "/f"},
		"write a_watts":                 {Name: "a", Unit: "watts", File: "/f"},
		"is not a whole path":           {Name: "a", File: "f"},
		"which has none":                {Name: "a", File: "/f", PathLabel: "x"},
		"a [ is not closed":             {Name: "a", File: "/[f"},
		"scale is not a number other":   {Name: "a", File: "/f", Scale: &zero},
		"label \"owner\" cannot be":     {Name: "a", File: "/f", Labels: map[string]string{"owner": "x"}},
		"path_label x is one of labels": {Name: "a", File: "/*", PathLabel: "x", Labels: map[string]string{"x": "1"}},
		"offset is no number":           {Name: "a", File: "/f", Offset: math.Inf(1)},
	} {
		if _, err := New("", []Reading{r}); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "reading 1 (") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := New("", []Reading{{Name: "a", File: "/f"}, {Name: "a", File: "/g"}}); err == nil {
		t.Error("the same series twice is taken")
	}
	if _, err := New("", nil); !errors.Is(err, sensor.ErrUnavailable) {
		t.Error(err)
	}
}

func FuzzValue(f *testing.F) {
	f.Add([]byte("12 rpm"), []byte(`{"a":[1,"2",null,true]}`), "a.1")
	f.Fuzz(func(t *testing.T, text, doc []byte, place string) {
		if v, err := parseLeadingNumber(text); err == nil && len(text) == 0 {
			t.Error(v)
		}
		if _, err := numberAtPath(doc, place); err != nil && len(err.Error()) > 8*len(place)+200 {
			t.Errorf("a long error: %v", err)
		}
	})
}
