package metricdoc

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reckon/account"
	"reckon/agent"
	"reckon/agent/external/scrape"
	"reckon/agent/external/textfile"
	"reckon/interop/scheduler"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/all"
	"reckon/sensor/battery"
	"reckon/sensor/cray"
	"reckon/sensor/hwmon"
	"reckon/sensor/infiniband"
	"reckon/sensor/netfs"
	"reckon/sensor/node"
	"reckon/sensor/rapl"
	"reckon/sensor/redfish"
	"reckon/sensor/resctrl"
	"reckon/sensor/sensortest"
	"reckon/sensor/slingshot"
	"reckon/sensor/task"
	"reckon/sensor/task/disks"
	"reckon/sensor/tegra"
	"reckon/sensor/thermal"
	"reckon/sensor/uncore"
	"reckon/server"
	"reckon/transport/push"
	"reckon/transport/scraping"
	"reckon/workload"
)

var update = flag.Bool("update", false, "write doc/metrics.md")

//go:generate go test -run TestReference . -update

// doc/metrics.md matches the descriptions in the source, and they follow the conventions.
// The series of the machine depend on its kernel: the series of the recorded machine in
// sensor/node are listed.
func TestReference(t *testing.T) {
	sections := []Section{
		{Title: "Workloads", Descs: slices.Concat(account.Descs(), task.TallyDescs()), Text: "The identity is in the labels `workload`, `kind`, `part` and `owner`; every series also has the external labels `site` and `node`.\n" +
			"The kind is " + strings.Join(workload.KindNames(workload.Kinds()), ", ") +
			", or that of another Kubernetes controller in lower case, such as statefulset."},
	}
	sections = append(sections, Section{Title: "The server", Descs: server.Descs(), Text: "What the server says of itself, on `/metrics` of `reckon serve` and `reckon up`, and in its own store once a minute, where they have the label `server` instead of `node`."})
	sections = append(sections, Section{Title: "Scraping", Descs: scraping.Descs(), Text: "What the server says of targets that it scrapes, beside Prometheus's own `up` and `scrape_*`, with the labels of the target."})
	sections = append(sections, Section{Title: "Slurm", Descs: scheduler.Descs(), Text: "What the controller of a cluster says, with the external label `site` and without `node`; what has the label `node` names it as Slurm does. It also writes the series of workloads for name, times and requests."})
	machine := Section{Title: "The machine", Text: "Names, labels and types of node_exporter. What the kernel does not give is absent; a newer kernel may give more."}
	for _, e := range all.Sensors(filepath.Join("..", "..", "sensor", "node", "testdata", "vm")) {
		s, err := e.Open()
		if errors.Is(err, sensor.ErrUnavailable) {
			continue // the recorded machine has no meters and GPUs; they are listed below
		}
		if err != nil {
			t.Fatalf("%s: %v", e.Name, err)
		}
		machine.Descs = append(machine.Descs, s.Descs()...)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	machine.Descs = append(machine.Descs, node.TimexDescs()...)
	sections = append(sections, machine, Section{Title: "Energy", Descs: slices.Concat(rapl.Descs(), battery.Descs(), cray.Descs(), redfish.Descs()), Text: "What the meters of the node count."},
		Section{Title: "Boards", Descs: slices.Concat(hwmon.Descs(), thermal.Descs()), Text: "Temperatures, fans and throttling; names of node_exporter where it has them."},
		Section{Title: "Interconnects", Descs: slices.Concat(infiniband.Descs(), slingshot.Descs()), Text: "Ports of InfiniBand, Omni-Path, RoCE and iWARP under the names of node_exporter, and adapters of HPE Slingshot."},
		Section{Title: "Memory controllers", Descs: slices.Concat(uncore.Descs(), resctrl.Descs()), Text: "What the memory controllers of processors count, and the monitoring of their caches (resctrl)."},
		Section{Title: "Network file systems", Descs: netfs.Descs(), Text: "What mounts of NFS and Lustre do; the type is nfs or lustre, the source the export or the name of the file system."},
		Section{Title: "Disks", Descs: disks.Descs(), Text: "What programs in the kernel measure of disks, beside `node_disk_*`."},
		Section{Title: "Jetson", Descs: tegra.Descs(), Text: "Boards with a Tegra, from sysfs and from tegrastats."},
		Section{Title: "GPUs", Descs: sensor.GPUDescs(), Text: "Devices of every vendor under the same names; `device` is the UUID or the PCI address, `index` what the vendor's tools count."}, Section{Title: "The agent", Descs: agent.Descs(),
			Text: "The agent measures itself with the same care."},
		Section{Title: "Own metrics", Descs: slices.Concat(textfile.Descs(), scrape.Descs()), Text: "What the readers of figures of others say of themselves; see also `reckon_own_*` of the agent."},
		Section{Title: "What is pushed", Descs: push.Descs(), Text: "One series for each endpoint of `--push`."})
	seen := map[string]*metric.Desc{}
	for _, s := range sections {
		for _, d := range s.Descs {
			if other := seen[d.Name]; other != nil && other != d {
				t.Errorf("%s is described twice", d.Name)
			}
			seen[d.Name] = d
		}
	}
	for _, s := range sections[:1] {
		for _, d := range s.Descs {
			for _, problem := range sensortest.Lint(d, false) {
				t.Errorf("%s: %s", d.Name, problem)
			}
		}
	}
	path := filepath.Join("..", "..", "doc", "metrics.md")
	want := Markdown(sections...)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != string(want) {
		t.Errorf("doc/metrics.md is not what the descriptions say (%v); run `make gen`", err)
	}
}
