package report

import (
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/web/client"
)

func ownerOf() *client.OwnerReport {
	f := func(v float64) *float64 { return &v }
	until := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	hostile := client.Workload{ID: "slurm/7", Name: "<script>\x1b[31m", State: "out_of_memory", Start: until.Add(-time.Hour)}
	return &client.OwnerReport{
		Owner: "alice", Server: "https://reckon.example", Since: until.Add(-7 * 24 * time.Hour), Until: until,
		Used: client.Usage{UsageFigures: client.UsageFigures{CPUSeconds: f(36000), HeldCoreSeconds: f(72000), Exactness: figure.Degrees{"cpu_seconds": figure.AtLeast}}},
		Days: []client.Usage{
			{From: new(until.AddDate(0, 0, -2)), UsageFigures: client.UsageFigures{CPUSeconds: f(9000), HeldCoreSeconds: f(36000)}},
			{From: new(until.AddDate(0, 0, -1)), UsageFigures: client.UsageFigures{CPUSeconds: f(27000)}},
		},
		Failed: []client.Workload{hostile}, FailedTotal: 12,
		Lost:     []client.Lost{{Name: "train", Runs: 1, Worst: hostile, CoreSeconds: f(36000), Advice: &client.Advice{Cores: f(1), GPUs: f(1), MemoryBytes: f(2 << 30)}}},
		Findings: []client.Finding{{Rule: "over-requested", Text: "asked for <b>much</b>", First: until}},
	}
}

// TestOwner: the page and the text contain the figures with their marks, a hostile name is neither executed nor
// sent raw to a terminal, and an unmeasured figure is a dash.
func TestOwner(t *testing.T) {
	var page strings.Builder
	if err := WriteOwner(&page, ownerOf()); err != nil {
		t.Fatal(err)
	}
	text := Text(ownerOf())
	for in, wants := range map[string][]string{
		page.String(): {"&gt;=10", "&lt;script&gt;", "asked for &lt;b&gt;much", "https://reckon.example/workload?id=slurm%2F7", "1 core, 1 GPU, 2 GiB", "–", "Fri Nov 20  #########........................... "},
		text: {">=10", "  allocated, not used              10                -", "ask for 1 core, 1 GPU, 2 GiB", "in 1 run\n", "and 11 more",
			"\n  Fri Nov 20  #########...........................  2.5 used, 10 allocated\n  Sat Nov 21  ###########################           7.5 used\n", "<script>?[31m", "https://reckon.example/owner?name=alice"},
	} {
		for _, want := range wants {
			if !strings.Contains(in, want) {
				t.Errorf("no %q in\n%s", want, in)
			}
		}
	}
	if strings.Contains(page.String(), "<script") || strings.ContainsRune(text, '\x1b') {
		t.Error("a name of a job runs or reaches the terminal")
	}
	if strings.Contains(text, "GPU-hours used") {
		t.Errorf("a figure that was never measured has a line:\n%s", text)
	}
}
