package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"reckon/internal/term"
	"reckon/web/api/apitest"
)

// tmux is a terminal of the given size that runs a command.
type tmux struct {
	t      *testing.T
	socket string
}

func startTmux(t *testing.T, width, height int, env []string, command string) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	x := &tmux{t, filepath.Join(t.TempDir(), "tmux")}
	reckon, err := exec.LookPath("reckon") // this test binary, under the name that TestMain gave it
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range append(env, "TERM=screen-256color", "LANG=C.UTF-8") {
		command = e + " " + command
	}
	command = strings.Replace(command, "reckon ", reckon+" ", 1)
	x.run("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), command+"; echo exit code $?; sleep 60")
	t.Cleanup(func() { x.run("kill-server") })
	return x
}

func (x *tmux) run(args ...string) string {
	x.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-u", "-S", x.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %s: %v: %s", args[0], err, out)
	}
	return string(out)
}

func (x *tmux) keys(keys ...string) { x.run(append([]string{"send-keys"}, keys...)...) }

// until waits for a screen that contains the text, and returns it.
func (x *tmux) until(text string) string {
	x.t.Helper()
	deadline := time.Now().Add(2 * time.Minute) // far more than needed, for a busy machine
	for {
		screen := x.run("capture-pane", "-p")
		if strings.Contains(screen, text) {
			if dir := os.Getenv("RECKON_CAPTURES"); dir != "" {
				name := strings.ReplaceAll(x.t.Name(), "/", "_") + "-" + strings.Map(func(r rune) rune {
					if r < 'a' || r > 'z' {
						return '_'
					}
					return r
				}, strings.ToLower(text))
				_ = os.WriteFile(filepath.Join(dir, name+".txt"), []byte(screen), 0o644)
			}
			return screen
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("the screen never showed %q:\n%s", text, screen)
		}
		<-time.After(30 * time.Millisecond)
	}
}

func TestTopInTerminal(t *testing.T) {
	server := site(t)
	x := startTmux(t, 80, 24, []string{"RECKON_SERVER=" + server.URL}, "reckon top")
	screen := x.until("slurm/4711")
	for _, want := range []string{"n1", "12 workloads", "CPU    [", "Memory [", "4.1 of 16", "CORES▼", "? help"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen lacks %q:\n%s", want, screen)
		}
	}
	x.keys("m")
	x.until("MEMORY▼")
	x.keys("r")
	x.until("MEMORY▲")
	x.keys("/", "daemon9", "Enter")
	x.until("1 of 12 workloads")
	x.keys("Escape")
	x.until("  12 workloads")
	x.keys("c", "Down", "Enter")
	x.until("busiest program python3")
	x.keys("Escape")
	x.until("CORES▼")
	x.keys("Home", "Enter") // the store has slurm/4711 with its programs
	x.until("gcc")
	x.keys("?")
	x.until("threads that were ready to run")
	x.keys("?")
	x.until("CORES▼")
	x.keys("Space")
	x.until("paused")
	x.run("resize-window", "-x", "30", "-y", "6")
	x.until("paused (space res") // the small screen's footer
	if screen := x.until("3.2"); !strings.Contains(screen, "train") {
		t.Errorf("30 columns do not hold workload and cores:\n%s", screen)
	}
	x.run("resize-window", "-x", "5", "-y", "2")
	x.run("resize-window", "-x", "120", "-y", "30")
	x.until("COMMAND")
	x.keys("Space")
	_ = server.Listener.Close() // the server stops, and the picture stays
	server.CloseClientConnections()
	if screen := x.until("no news: "); !strings.Contains(screen, "slurm/4711") {
		t.Errorf("the last picture is gone:\n%s", screen)
	}
	x.keys("q")
	x.until("exit code 0")
}

func TestTopLocalInTerminal(t *testing.T) {
	x := startTmux(t, 80, 24, []string{"RECKON_TEST_LOCAL=1", "NO_COLOR=1"}, "reckon top --local")
	x.until("slurm/4711")
	x.keys("Enter")
	x.until("Cores over the last") // a second tick arrived
	x.keys("C-c")
	x.until("exit code 0")
}

// TestTopFits draws every view at many sizes: it never exceeds the lines or columns of the
// screen.
func TestTopFits(t *testing.T) {
	m := newTopModel(term.Screen{Terminal: true, Color: true}, nil, "n1", 0)
	for i := range 3 {
		m.setTick(apitest.Tick(fixedNow().Add(time.Duration(i)*time.Second), 40))
	}
	m.chosen = rowKey(&m.now.Workloads[30])
	for _, v := range []view{viewList, viewDetail, viewHelp} {
		m.view = v
		for _, size := range [][2]int{{1, 1}, {10, 3}, {20, 5}, {30, 11}, {40, 12}, {50, 13}, {80, 24}, {132, 43}, {300, 100}} {
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			lines := strings.Split(m.render(), "\n")
			if len(lines) > size[1] {
				t.Errorf("view %d at %v has %d lines", v, size, len(lines))
			}
			for _, l := range lines {
				if w := term.Width(l); w > size[0] && size[0] >= 10 {
					t.Errorf("view %d at %v: %d columns: %q", v, size, w, l)
				}
			}
		}
	}
}

func TestTopOrders(t *testing.T) {
	m := newTopModel(term.Screen{Width: 80, Height: 24}, nil, "n1", 0)
	m.setTick(apitest.Tick(fixedNow(), 10))
	m.now.Workloads[2].MemoryTrafficRate = new(1e9)
	m.now.Workloads[4].GPU, m.now.Workloads[5].GPU = new(0.25), new(0.5)
	for i, want := range []string{"slurm/4711", "unit/daemon9.service", "slurm/4718", "slurm/4717", "slurm/4713", "slurm/4716", "slurm/4719", "slurm/4711", "unit/daemon9.service", "slurm/4711"} {
		m.Update(tea.KeyPressMsg{Text: sortOrders()[i].key})
		if got := m.rows()[0].ID; got != want {
			t.Errorf("by %s the first is %s, want %s", sortOrders()[i].name, got, want)
		}
		if n := m.rows(); sortOrders()[i].name == "io" && n[len(n)-1].ReadRate != nil {
			t.Error("by io an unknown rate is not last")
		}
	}
}

func BenchmarkTopView(b *testing.B) {
	m := newTopModel(term.Screen{Terminal: true, Color: true, Width: 132, Height: 43}, nil, "n1", 0)
	m.setTick(apitest.Tick(fixedNow(), 1000))
	b.ReportAllocs()
	for b.Loop() {
		_ = m.render()
	}
}
