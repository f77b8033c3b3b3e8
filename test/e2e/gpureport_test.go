//go:build e2e

package e2e

import (
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestGPUReport runs the report of GPUs on a played one (testdata/playedgpu.c), which counts for itself how long its kernels ran.
func TestGPUReport(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler; apt-get install gcc")
	}
	m := playMachine(t, cc)
	var out []byte
	ran := 0.0
	for range 3 { // a kernel that a busy machine lets sleep for more than a second is played as 100 % of the last one
		before := m.ran(t)
		out, err = m.command("reckon-agent", "check", "--gpu-report", "--root", m.root(t, false)).CombinedOutput()
		ran = m.ran(t) - before
		if t.Logf("%v\n%s", err, out); err == nil {
			break
		}
	}
	line := regexp.MustCompile(`(?m)^\| Played GPU, driver 580.1, Linux .* \|$`).FindString(string(out))
	if line == "" {
		t.Fatal("no line for the table")
	}
	sum := 0.0
	for _, load := range []string{"all of it", "40 %", "eight processes of 0.3 s in a group", "two groups of 30 % side by side, together"} {
		f := regexp.MustCompile(regexp.QuoteMeta(load) + ` ([0-9.]+) of ([0-9.]+) s`).FindStringSubmatch(line)
		if f == nil {
			t.Fatalf("no figure of %s", load)
		}
		got, _ := strconv.ParseFloat(f[1], 64)
		truth, _ := strconv.ParseFloat(f[2], 64)
		sum += truth
		if truth < 1 || math.Abs(got/truth-1) > 0.1 { // of a busy machine that only plays
			t.Errorf("%s: %v s are charged of %v", load, got, truth)
		}
	}
	if math.Abs(sum/ran-1) > 0.02 {
		t.Errorf("the loads say that kernels ran for %v s, the device %v s", sum, ran)
	}
	bare := m.command("reckon-agent", "check", "--gpu-report")
	bare.Env = nil
	out, err = bare.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "need CUDA, and a GPU of NVIDIA to compute on: no NVIDIA driver") {
		t.Errorf("without a GPU: %v\n%s", err, out)
	}
}
