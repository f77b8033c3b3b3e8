//go:build e2e

package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reckon/store/storetest"
	"reckon/web/client"
)

// The machine that is played draws watts by its processors and its GPU.
const (
	playedIdle = 60.0  // watts
	playedCPU  = 80.0  // with all processors busy
	playedGPU  = 220.0 // with the GPU busy
)

// TestModelOfCPUAndGPU goes the whole way of a power model on processors and a GPU: a plan of loads, a data set of
// what a wall meter and the sensors measured, the fit, an agent on a machine of the kind without a meter, and
// `reckon nodes`. The GPU is played (testdata/playedgpu.c), as is the meter (the files of a Cray); processors and
// loads are real. The answer keeps to the error that the fit stated.
func TestModelOfCPUAndGPU(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler; apt-get install gcc")
	}
	m := playMachine(t, cc)
	u := startServe(t, t.TempDir())
	m.agent(t, u, "metered", m.root(t, true))
	waitFor(t, "measured power", func() bool {
		return len(u.prom(`rate(reckon_node_energy_joules_total{node="metered",method="measured"}[8s])`)) > 0
	})
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte(`
seed: 3
shuffle: true
pause: 6s
measure: {step: 1s, node: metered}
runs:
  - {name: g30, stress: {gpu: 30%, for: 14s}}
  - {name: g60, stress: {gpu: 60%, for: 14s}}
  - {name: g95, stress: {gpu: 95%, for: 14s}}
  - {name: c40, stress: {cpu: allx40%, for: 14s}}
  - {name: c90, stress: {cpu: allx90%, for: 14s}}
  - {name: both, stress: {cpu: allx50%, gpu: 80%, for: 14s}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "run")
	m.reckon(t, u, "experiment", plan, "--output", out)
	fitted := filepath.Join(t.TempDir(), "model.json")
	said := m.reckon(t, u, "power", "fit", filepath.Join(out, "data.csv"), "--feature", "cpu_utilization", "--feature", "gpu_utilization", "--name", "played", "-o", fitted)
	t.Log(said)
	stated, worst := statedErrors(t, fitted)
	if stated > 0.10 {
		t.Errorf("the fit states an error of %.1f %%; what it fits is a straight line", 100*stated)
	}
	if text, _ := os.ReadFile(fitted); !bytes.Contains(text, []byte(`"gpu_`)) {
		t.Errorf("no figure of the GPU in a model of a machine whose GPU draws most:\n%s", text)
	}

	// The load is there before the agent is: `reckon nodes` shows the mean of the last two minutes.
	load := m.start(t, "stress", "--gpu", "70%", "--cpu", "allx20%", "--for", "2m")
	pause(3 * time.Second)
	begin, at := m.joules.Load(), time.Now()
	m.agent(t, u, "unmetered", m.root(t, false), "--set", "power-model="+fitted)
	pause(15 * time.Second)
	var sum, n float64
	for range 20 {
		pause(time.Second)
		var list client.NodeList
		u.get("/api/reckon/v1/nodes", &list)
		for _, node := range list.Nodes {
			if node.Node == "unmetered" && node.Watts != nil {
				sum, n = sum+*node.Watts, n+1
			}
		}
	}
	truth := float64(m.joules.Load()-begin) / 1e6 / time.Since(at).Seconds()
	if n < 15 {
		t.Fatalf("`reckon nodes` had watts of the machine without a meter %v times of 20:\n%s", n, m.reckon(t, u, "nodes"))
	}
	got := sum / n
	t.Logf("modelled %.1f W, drawn %.1f W: %.1f %%, stated %.1f %%", got, truth, 100*math.Abs(got/truth-1), 100*stated)
	if math.Abs(got/truth-1) > worst { // of one load, as each part was
		t.Errorf("modelled %.1f W, drawn %.1f W; the fit stated %.1f %%, and %.1f %% at the worst", got, truth, 100*stated, 100*worst)
	}
	if text := m.reckon(t, u, "nodes"); !strings.Contains(text, "~") {
		t.Errorf("`reckon nodes` does not mark modelled power:\n%s", text)
	}
	_ = load.Process.Signal(os.Interrupt)
	_ = load.Wait() // how it ended does not matter here
}

// statedErrors are the mean error that a model states and the mean error of its worst part, as ratios.
func statedErrors(t *testing.T, file string) (mean, worst float64) {
	t.Helper()
	var m struct {
		Training struct {
			Score struct {
				MAPE  float64 `json:"mape"`
				Worst float64 `json:"worst_fold_mape"`
			} `json:"score"`
		} `json:"training"`
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Training.Score.MAPE == 0 {
		t.Fatalf("%s states no error: %v\n%s", file, err, text)
	}
	return m.Training.Score.MAPE, m.Training.Score.Worst
}

// playedMachine is this machine with a GPU and a meter that are played.
type playedMachine struct {
	dir    string
	joules atomic.Int64 // µJ drawn so far
}

func playMachine(t *testing.T, cc string) *playedMachine {
	t.Helper()
	m := &playedMachine{dir: t.TempDir()}
	source, err := filepath.Abs("testdata/playedgpu.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libcuda.so.1", "libnvidia-ml.so.1"} {
		if out, err := exec.Command(cc, "-Wall", "-shared", "-fPIC", "-o", filepath.Join(m.dir, name), source).CombinedOutput(); err != nil {
			t.Fatalf("cc: %v\n%s", err, out)
		}
	}
	build := exec.Command("go", "build", "-tags", "nvml", "-o", m.dir, "reckon/cmd/reckon", "reckon/cmd/reckon-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "gpu"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// ran is the time that kernels ran on the GPU, seconds.
func (m *playedMachine) ran(t *testing.T) float64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, "gpu"))
	if err != nil {
		t.Fatal(err)
	}
	return float64(binary.NativeEndian.Uint64(b)) / 1e9
}

// command is a program of the machine with its GPU.
func (m *playedMachine) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(m.dir, name), args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+m.dir, "PLAYED_GPU="+filepath.Join(m.dir, "gpu"))
	return cmd
}

// reckon runs `reckon` to its end.
func (m *playedMachine) reckon(t *testing.T, u *up, args ...string) string {
	t.Helper()
	out, err := m.command("reckon", append(args, "--server", "http://"+u.addr)...).CombinedOutput()
	if err != nil {
		t.Fatalf("reckon %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (m *playedMachine) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := m.command("reckon", args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// agent runs an agent until the test ends and waits until its GPU is on the server.
func (m *playedMachine) agent(t *testing.T, u *up, node, root string, args ...string) {
	t.Helper()
	cmd := m.command("reckon-agent", append([]string{"--node", node, "--root", root, "--export", "1s", "--listen", storetest.FreeAddress(t),
		"--push", "http://" + u.addr, "--set", "push-queue=" + t.TempDir(), "--source", "procfs", "--set", "exits=none"}, args...)...)
	out := new(lockedBuffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agent of %s wrote:\n%s", node, out)
		}
	})
	waitFor(t, "the GPU of "+node, func() bool {
		return len(u.prom(fmt.Sprintf(`reckon_gpu_busy_seconds_total{node=%q}`, node))) > 0
	})
}

// waitFor waits up to a minute until something is on the server.
func waitFor(t *testing.T, what string, there func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !there(); pause(500 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not on the server after a minute: %s", what)
		}
	}
}

// root is the file tree of the machine: the real one, the trace of a GPU driver and, where there is a meter, its files.
func (m *playedMachine) root(t *testing.T, metered bool) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"dev", "sys/cray"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := func(from, to string) {
		if err := os.Symlink(from, filepath.Join(root, to)); err != nil {
			t.Fatal(err)
		}
	}
	link("/proc", "proc")
	link("/etc", "etc")
	link("/run", "run")
	entries, err := os.ReadDir("/sys")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "cray" {
			link("/sys/"+e.Name(), "sys/"+e.Name())
		}
	}
	if err := os.WriteFile(filepath.Join(root, "dev/nvidiactl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if metered {
		m.meter(t, filepath.Join(root, "sys/cray/pm_counters"))
	}
	return root
}

// meter writes what the machine draws into the files of a Cray, ten times a second.
func (m *playedMachine) meter(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]*os.File{}
	for _, name := range []string{"energy", "freshness"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	n := 0
	cpu, total := processors(t)
	gpu, at := m.busy(t), time.Now()
	step := func() {
		c, all := processors(t)
		g, now := m.busy(t), time.Now()
		seconds := now.Sub(at).Seconds()
		watts := playedIdle + playedGPU*min(float64(g-gpu)/1e9/seconds, 1)
		if all > total {
			watts += playedCPU * (c - cpu) / (all - total)
		}
		m.joules.Add(int64(watts * seconds * 1e6))
		n++
		_, err1 := files["energy"].WriteAt(fmt.Appendf(nil, "%012d J\n", m.joules.Load()/1e6), 0)
		_, err2 := files["freshness"].WriteAt(fmt.Appendf(nil, "%012d\n", n), 0)
		if err1 != nil || err2 != nil {
			panic("the played meter cannot write")
		}
		cpu, total, gpu, at = c, all, g, now
	}
	step()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				step()
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

// busy is the time that kernels have run on the played GPU, in nanoseconds.
func (m *playedMachine) busy(t *testing.T) uint64 {
	b := make([]byte, 8)
	f, err := os.Open(filepath.Join(m.dir, "gpu"))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer f.Close()
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Error(err)
	}
	return binary.NativeEndian.Uint64(b)
}

// processors reads the time of all processors from /proc/stat: busy, and all of it.
func processors(t *testing.T) (busy, all float64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, f := range strings.Fields(line)[1:9] { // guest time is in user time
		var v float64
		fmt.Sscan(f, &v)
		all += v
		if i != 3 && i != 4 && i != 7 { // idle, iowait, steal
			busy += v
		}
	}
	return busy, all
}
