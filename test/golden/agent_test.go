package golden

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"reckon/store/storetest"
)

// TestAgentState lets an agent go on with the accounts of an earlier one, on the tree of a
// recorded machine. The state has five seconds of a process that the tree no longer shows.
func TestAgentState(t *testing.T) {
	dir, _ := unpack(t)
	was := series(t, filepath.Join(dir, "agent/metrics.txt"))
	addr := storetest.FreeAddress(t)
	root := filepath.Join(dir, "agent/root")
	stop := start(t, exec.Command(program(t, "reckon-agent"), "--root", root, "--source", "procfs", "--set", "exits=none", "--node", "golden",
		"--set", "tick=100ms", "--export", "100ms", "--set", "push-socket=none", "--set", "power-model=none",
		"--state", filepath.Join(dir, "agent/agent.state"), "--listen", addr))
	defer stop()
	var is map[string]float64
	scrape := func() bool {
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		is = read(t, bufio.NewScanner(resp.Body))
		return len(is) > 0
	}
	eventually(t, "the agent has read its tree", scrape)
	if len(was) < 20 {
		t.Fatalf("only %d series of the earlier agent", len(was))
	}
	for name, v := range was {
		now, ok := is[name]
		switch {
		case strings.HasPrefix(name, "reckon_workload_cores"): // counts ticks
		case !ok:
			t.Errorf("%s is lost", name)
		case strings.HasPrefix(name, "reckon_workload_memory_byte_seconds_total"): // time goes on
			if now < v {
				t.Errorf("%s fell from %v to %v", name, v, now)
			}
		case now != v:
			t.Errorf("%s was %v, is %v", name, v, now)
		}
	}

	// And it counts on from there.
	name := findSeries(t, was, `reckon_workload_cpu_seconds_total{`, `part="0"`, `mode="user"`)
	stat := filepath.Join(root, "proc/27380/stat")
	text, err := os.ReadFile(stat)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	ticks, err := strconv.Atoi(fields[13]) // utime, hundredths of a second; see proc_pid_stat(5)
	if err != nil {
		t.Fatal(err)
	}
	fields[13] = strconv.Itoa(ticks + 700)
	if err := os.WriteFile(stat, []byte(strings.Join(fields, " ")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "seven seconds more are charged", func() bool { return scrape() && is[name] == was[name]+7 })
}

// series reads samples in the text format of Prometheus from a file.
func series(t *testing.T, path string) map[string]float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return read(t, bufio.NewScanner(f))
}

// read keeps the series of workloads of Slurm.
func read(t *testing.T, s *bufio.Scanner) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for s.Scan() {
		name, value, ok := strings.Cut(s.Text(), "} ")
		if !ok || !strings.HasPrefix(name, "reckon_workload_") || !strings.Contains(name, `workload="slurm/`) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return out
}

func findSeries(t *testing.T, list map[string]float64, parts ...string) string {
	t.Helper()
	for name := range list {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(name, p)
		}
		if all {
			return name
		}
	}
	t.Fatalf("no series with %v", parts)
	return ""
}
