package metricset

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// TestPublished reads every shape of file that the metrics-operator ever published (testdata/published,
// MIT, see its LICENSE) and holds the verdict against the golden one, which a person has read.
func TestPublished(t *testing.T) {
	files, _ := filepath.Glob("testdata/published/*.yaml")
	if len(files) < 60 {
		t.Fatalf("%d files", len(files))
	}
	var b strings.Builder
	for _, file := range files {
		fmt.Fprintf(&b, "%s\n", filepath.Base(file))
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		sets, err := Decode(f)
		f.Close()
		if err != nil {
			fmt.Fprintf(&b, "  unreadable: %v\n", err)
			continue
		}
		for _, ms := range sets {
			set, problems := Read(ms)
			for _, p := range problems {
				fmt.Fprintf(&b, "  refused: %v\n", p)
			}
			if len(problems) > 0 {
				continue
			}
			for _, m := range set.Metrics {
				fmt.Fprintf(&b, "  accepted: %s", m.Job)
				if m.Attach != AttachNone {
					fmt.Fprintf(&b, " by %s", m.Attach)
				}
				b.WriteString("\n")
			}
			for _, n := range set.Notes {
				fmt.Fprintf(&b, "  converted: %s\n", n)
			}
			for _, n := range set.Warnings {
				fmt.Fprintf(&b, "  warning: %s\n", n)
			}
		}
	}
	golden := "testdata/published.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("verdicts differ from %s (-update writes them)\n%s", golden, b.String())
	}
}
