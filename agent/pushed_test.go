package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"reckon/metric"
	"reckon/web/client"
	"reckon/workload"
)

// running serves the socket of an agent that runs until the test ends; exports
// come by the channel.
func running(t *testing.T, c Config) (*Agent, *Socket, <-chan map[string]float64) {
	t.Helper()
	a := open(t, c)
	s, err := a.Listen(filepath.Join(t.TempDir(), "run", "push.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	exports := make(chan map[string]float64)
	done := make(chan error, 1)
	go func() {
		done <- a.Run(ctx, nil, func(_ context.Context, b *metric.Batch) error {
			select {
			case exports <- own(b, "my_"):
			case <-ctx.Done():
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, s, exports
}

// until waits for an export that is as wished.
func until(t *testing.T, exports <-chan map[string]float64, ok func(map[string]float64) bool) map[string]float64 {
	t.Helper()
	limit := time.After(2 * time.Minute)
	var got map[string]float64
	for {
		select {
		case got = <-exports:
			if ok(got) {
				return got
			}
		case <-limit:
			t.Fatalf("the last export has %v", got)
		}
	}
}

func TestPushSocket(t *testing.T) {
	a, s, exports := running(t, Config{Source: "procfs", Node: "n1"})
	<-exports
	send := func(text string, o client.Pushing) (string, error) {
		o.Socket = s.Path
		done := make(chan struct{})
		defer close(done)
		go func() { // the loop waits for who takes its exports
			for {
				select {
				case <-exports:
				case <-done:
					return
				}
			}
		}()
		return client.PushOwn(t.Context(), o, []byte(text))
	}
	answer, err := send("my_loss{phase=\"train\"} 0.25\nmy_epoch 4\n", client.Pushing{})
	if err != nil || !strings.HasPrefix(answer, "2 for ") {
		t.Fatalf("%q %v", answer, err)
	}
	for range 2 {
		if _, err := send("my_files_total 2\n", client.Pushing{Add: true}); err != nil {
			t.Fatal(err)
		}
	}
	got := until(t, exports, func(m map[string]float64) bool { return len(m) == 3 })
	var w string
	for k, v := range got {
		name, labels, _ := strings.Cut(k, " ")
		labels = strings.TrimSuffix(labels, " phase=train")
		w = labels
		if want := map[string]float64{"my_loss": 0.25, "my_epoch": 4, "my_files_total": 4}[name]; v != want {
			t.Errorf("%s: %v, want %v", k, v, want)
		}
		if !strings.HasPrefix(labels, "workload="+strings.TrimPrefix(answer, "2 for ")+" kind=") || !strings.Contains(labels, " owner=") {
			t.Errorf("labels %q, the answer was %q", labels, answer)
		}
	}

	// What stands for a moment only is reported once.
	if _, err := send("my_epoch 5\n", client.Pushing{Keep: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	until(t, exports, func(m map[string]float64) bool { return len(m) == 2 && m["my_epoch "+w] == 0 })

	for want, text := range map[string]string{
		"names that begin with reckon_": "reckon_workload_cpu_seconds_total 1\n",
		"the label owner is set by":     "my_loss{owner=\"bob\"} 1\n",
		"line 2: there is no value":     "my_loss 1\nmy_loss\n",
		"there is no figure":            "# nothing\n",
		"time stamps are not taken":     "my_loss 1 1700000000\n",
		"would have 203 series":         strings.Join(many(201), ""),
		"more than 64 KiB":              strings.Repeat("# long\n", 20_000),
	} {
		if _, err := send(text, client.Pushing{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100v, want %q", err, want)
		}
	}
	if _, err := send("my_loss 1\n", client.Pushing{Keep: 300 * time.Hour}); err == nil || !strings.Contains(err.Error(), "168h at most") {
		t.Errorf("%v", err)
	}
	if _, err := a.Listen(s.Path); !errors.Is(err, ErrSocketTaken) {
		t.Errorf("a second agent at the same socket: %v", err)
	}
}

func many(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("my_m{i=\"%d\"} 1\n", i))
	}
	return lines
}

func TestSocketLeftBehind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "push.sock")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	_ = old.Close()
	if _, err := client.PushOwn(t.Context(), client.Pushing{Socket: file}, []byte("a 1\n")); err == nil || !strings.Contains(err.Error(), "no agent listens at "+file+" any more") {
		t.Errorf("%v", err)
	}
	a := open(t, Config{Source: "procfs"})
	s, err := a.Listen(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.PushOwn(t.Context(), client.Pushing{Socket: file}, []byte("a 1\n")); err == nil || !strings.Contains(err.Error(), "there is no such socket") {
		t.Errorf("%v", err)
	}
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Listen(plain); err == nil {
		t.Error("a plain file was replaced by the socket")
	}
}

// pushHelper makes this binary send one figure, of the value pushValue, and end; see TestPushFromOthers.
const (
	pushHelper = "RECKON_TEST_PUSH_SOCKET"
	pushValue  = "RECKON_TEST_PUSH_VALUE"
)

func TestPushHelper(t *testing.T) {
	socket := os.Getenv(pushHelper)
	if socket == "" {
		t.Skip("it is run by TestPushFromOthers")
	}
	answer, err := client.PushOwn(t.Context(), client.Pushing{Socket: socket}, []byte("my_short "+os.Getenv(pushValue)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("answer: " + answer)
}

// Processes of another user in sessions of their own, which end at once, have what they sent where the answer reports: one does not
// overwrite another's, and the agent learns who they are while they wait for the answer.
func TestPushFromOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process as another user")
	}
	a, s, exports := running(t, Config{Source: "procfs", Node: "n1"})
	<-exports
	var w figureSubject
	var err error
	asked := make(chan struct{})
	ask := func() {
		defer close(asked)
		w, err = a.processOwner(int32(os.Getpid()), 0, true)
	}
	for to, waits := a.asks, true; waits; { // the loop waits for who takes its exports
		select {
		case to <- ask:
			to = nil
		case <-asked:
			waits = false
		case <-exports:
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if w.id.Kind() != workload.Group {
		t.Skip("this test runs in " + string(w.id) + ", where everybody is in one workload")
	}
	dir, err := os.MkdirTemp("", "reckon-push") // the folders of t.TempDir are closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exe := filepath.Join(dir, "push.test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(exe, self, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for d := filepath.Dir(filepath.Dir(s.Path)); strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	type result struct {
		value string
		out   []byte
		err   error
	}
	ended := make(chan result, 3)
	for _, value := range []string{"1", "2", "3"} { // short scripts of one user, which send the same figure
		cmd := exec.Command(exe, "-test.run=^TestPushHelper$", "-test.v")
		cmd.Env = []string{pushHelper + "=" + s.Path, pushValue + "=" + value}
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}, Setsid: true}
		go func() {
			out, err := cmd.CombinedOutput()
			ended <- result{value, out, err}
		}()
	}
	filed, got := map[string]float64{}, map[string]float64{}
	for limit := time.After(2 * time.Minute); len(filed) < 3 || len(got) < 3; {
		select {
		case export := <-exports:
			maps.Copy(got, export)
		case r := <-ended:
			_, answer, ok := strings.Cut(string(r.out), "answer: 1 for ")
			answer, _, _ = strings.Cut(answer, "\n")
			if r.err != nil || !ok || !strings.HasPrefix(answer, "group/n1/") {
				t.Fatalf("%v: %s", r.err, r.out)
			}
			filed["my_short workload="+answer+" kind=group owner=54321"], _ = strconv.ParseFloat(r.value, 64)
		case <-limit:
			t.Fatalf("filed %v, exported %v", filed, got)
		}
	}
	if !maps.Equal(filed, got) {
		t.Errorf("filed %v, exported %v", filed, got)
	}
}

// A command that sends one figure and ends is of the script that ran it, also where a
// shell gave it a process group of its own; a program that goes on is its own workload.
func TestSenderOwner(t *testing.T) {
	a := open(t, Config{Source: "procfs", Node: "n1"})
	a.btime = bootTime("/")
	twice(t, a)
	shell, err := a.processOwner(int32(os.Getpid()), 0, false)
	if err != nil || shell.id.Kind() != workload.Group {
		t.Skipf("this test runs in %s (%v), where everybody is in one workload", shell.id, err)
	}
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	pid, uid := int32(cmd.Process.Pid), uint32(os.Geteuid())
	now := a.now
	a.now = func() time.Time { // as if no time had passed since, however busy the machine is
		p, err := a.look.(processReaderByID).Process(pid)
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(a.btime+int64(p.Start/1e9)+1, 0)
	}
	if w, err := a.senderOwner(pid, uid); err != nil || w != shell {
		t.Errorf("a command is of %v (%v), want %v", w, err, shell)
	}
	a.now = func() time.Time { return now().Add(time.Minute) }
	own := fmt.Sprintf("group/n1/%d-", pid)
	if w, err := a.senderOwner(pid, uid); err != nil || !strings.HasPrefix(string(w.id), own) {
		t.Errorf("a program is of %v (%v), want %s", w, err, own)
	}
	a.now = now
	if w, err := a.processOwner(pid, uid, true); err != nil || !strings.HasPrefix(string(w.id), own) {
		t.Errorf("who listens is of %v (%v), want %s", w, err, own)
	}
}

// What was sent stands as long as its workload, also where who sent it was never seen; it
// ends with the workload, and figures of short work stay.
func TestPushedStands(t *testing.T) {
	a := open(t, Config{Source: "procfs", Node: "n1"})
	a.openOwnReaders(0)
	clock := time.Now()
	a.now = func() time.Time { return clock }
	twice(t, a)
	mine, err := a.processOwner(int32(os.Getpid()), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, w figureSubject, keep time.Duration) {
		s := metric.NewSeries(&metric.Desc{Name: name, Kind: metric.Gauge})
		a.own.pushed[pushKey{w, seriesText(s)}] = &pushedFigure{series: s, value: 1, until: clock.Add(keep)}
	}
	other := mine
	other.owner = "somebody"
	put("my_own", mine, time.Hour)
	put("my_other", other, time.Hour)
	put("my_moment", mine, time.Millisecond)
	put("my_short", figureSubject{id: "short/carol/n1", owner: "carol"}, time.Hour)
	put("my_ended", figureSubject{id: "slurm/1", part: "step_0", owner: "carol"}, time.Hour)
	names := func() (out []string) {
		clock = clock.Add(10 * time.Second)
		a.export(clock)
		for k := range own(&a.batch, "my_") {
			name, rest, _ := strings.Cut(k, " ")
			if name == "my_short" && rest != "workload=short/carol/n1 kind=short owner=carol" {
				t.Errorf("%s", k)
			}
			out = append(out, name)
		}
		slices.Sort(out)
		return out
	}
	for i, want := range [][]string{
		{"my_moment", "my_other", "my_own", "my_short"}, // once at least, however short it was to stand
		{"my_ended", "my_other", "my_own", "my_short"},  // nobody knows the job: reported once
		{"my_other", "my_own", "my_short"},
	} {
		if got := names(); !slices.Equal(got, want) {
			t.Errorf("export %d has %v, want %v", i+1, got, want)
		}
	}
	clock = clock.Add(time.Hour)
	if got := names(); len(got) != 0 || len(a.own.pushed) != 0 {
		t.Errorf("after an hour there is %v", got)
	}
}
