package jobs

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"reckon/kubernetes/operator/metricset"
)

var update = flag.Bool("update", false, "write the golden files")

var config = Config{ProbeImage: "example.org/reckon-agent:1", ProbePort: 9878, TTL: 86400}

// published reads the sets of a file of the metrics-operator that are accepted.
func published(t *testing.T, file string) []*metricset.Set {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, string(data))
}

func read(t *testing.T, file string) (out []*metricset.Set) {
	t.Helper()
	sets, err := metricset.Decode(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, ms := range sets {
		ms.Namespace = "demo"
		if s, problems := metricset.Read(ms); len(problems) == 0 {
			out = append(out, s)
		} else {
			t.Log(problems)
		}
	}
	return out
}

func build(t *testing.T, s *metricset.Set) *Objects {
	t.Helper()
	o, err := Build(s, config)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// golden are the files with objects written out whole: one of each family, shape, add-on and way
// to attach.
func golden() []string {
	return []string{
		"addons-commands-time-6882b6", "addons-flux-lammps-0ddae9", "addons-hpctoolkit-lammps-rocky-92c878", "addons-mpitrace-lammps-rocky-2d5881", "addons-volumes-lammps-pvc-b96fae",
		"experiments-flux-operator-300bb5", "tests-app-hpl-476817", "tests-app-ldms-9aae01", "tests-io-fio-252a70", "tests-io-host-volume-bf294b", "tests-network-osu-benchmark-37f3b1",
		"tests-network-netmark-41f2c1", "tests-network-chatterbug-87e904", "tests-perf-lammps-7c0e35", "tests-sys-hwloc-51024e",
	}
}

func TestGolden(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.input.yaml")
	for _, name := range golden() {
		files = append(files, filepath.Join("../metricset/testdata/published", name+".yaml"))
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".yaml"), ".input")
		t.Run(name, func(t *testing.T) {
			sets := published(t, file)
			if len(sets) != 1 {
				t.Fatalf("%d sets are accepted", len(sets))
			}
			o := build(t, sets[0])
			var b bytes.Buffer
			for _, part := range []any{o.JobSet, o.ConfigMap, o.Service} {
				text, err := yaml.Marshal(part)
				if err != nil {
					t.Fatal(err)
				}
				b.WriteString("---\n" + string(text))
			}
			path := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), want) {
				t.Errorf("differs from %s (-update writes it):\n%s", path, b.String())
			}
		})
	}
}

// TestScripts checks that every script of every published file is one that bash can read.
func TestScripts(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	files, _ := filepath.Glob("../metricset/testdata/published/*.yaml")
	checked := 0
	for _, file := range files {
		for _, s := range published(t, file) {
			o := build(t, s)
			if o.ConfigMap == nil {
				continue
			}
			for key, text := range o.ConfigMap.Data {
				cmd := exec.Command(bash, "-n")
				cmd.Stdin = strings.NewReader(text)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s, %s: %v: %s\n%s", filepath.Base(file), key, err, out, text)
				}
				checked++
			}
		}
	}
	if checked < 60 {
		t.Errorf("%d scripts were checked", checked)
	}
}
