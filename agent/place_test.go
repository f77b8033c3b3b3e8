package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"reckon/account"
	"reckon/sensor/topology"
)

// TestPlaces looks at the real processes of this machine as if its processors were those
// of a constructed one with a second package that nobody may run on.
func TestPlaces(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stat := ""
	for cpu := range 1024 { // every processor that a machine may have is in package 0
		p := 0
		if cpu == 1023 {
			p = 1
		}
		write(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu), fmt.Sprint(p))
		stat += fmt.Sprintf("cpu%d 1 1 1 1 1 1 1 1 1 1\n", cpu)
	}
	write("proc/stat", stat)
	r, err := topology.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, Config{Source: "procfs", PowerModel: noModel})
	a.closers = append(a.closers, r)
	a.meter.place = placementReader{reader: r, parts: make(map[*account.Part]*partPlacement)}
	for range fullScanTicks + 3 {
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
		a.tickPlaces()
	}
	if len(a.meter.place.parts) == 0 {
		t.Fatal("no part has a place")
	}
	for part, at := range a.meter.place.parts {
		if at.packages != 1 || at.anywhere || at.processes == 0 {
			t.Errorf("%s: %+v, want it bound to package 0", part.Workload(), *at)
		}
	}
}
