//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"reckon/web/client"
)

// base makes a bare Debian once for all tests that need a machine of their own.
var base = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "reckon-root-")
	if err != nil {
		return "", err
	}
	baseDir = dir
	cmd := exec.Command("debootstrap", "--variant=minbase", "--include=adduser,ca-certificates,systemd,python3,openssh-server,iproute2", "bookworm", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("debootstrap: %w\n%s", err, out[max(0, len(out)-1000):])
	}
	return dir, nil
})

var baseDir string

func removeBase() {
	if baseDir != "" {
		_ = os.RemoveAll(baseDir)
	}
}

// machine is a Debian of its own: a root file system over a bare one.
type machine struct {
	t    *testing.T
	root string
	// enter is put before a command, such as ip netns exec NAME.
	enter []string
}

func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for a root file system of its own")
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		t.Skip("debootstrap is not installed")
	}
	lower, err := base()
	if err != nil {
		t.Skipf("no bare Debian could be had: %v", err)
	}
	return machineOver(t, name, lower)
}

func machineOver(t *testing.T, name, lower string) *machine {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"upper", "work", name} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := &machine{t: t, root: filepath.Join(dir, name)}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, dir, dir)
	if err := syscall.Mount("overlay", m.root, "overlay", 0, options); err != nil {
		t.Logf("no overlay (%v): the root is copied", err)
		if out, err := exec.Command("cp", "-a", lower+"/.", m.root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return m
	}
	t.Cleanup(func() { _ = syscall.Unmount(m.root, syscall.MNT_DETACH) })
	return m
}

// command runs in the machine. It sees processes and devices of the host, in mounts
// that end with it.
func (m *machine) command(ctx context.Context, args ...string) *exec.Cmd {
	const script = `set -e
for d in proc sys dev; do mount --rbind "/$d" "$0/$d"; done
mount -t tmpfs tmpfs "$0/run"
exec chroot "$0" "$@"`
	all := slices.Concat(m.enter, []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", script, m.root}, args)
	cmd := exec.CommandContext(ctx, all[0], all[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}
	return cmd
}

func (m *machine) must(args ...string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	out, err := m.command(ctx, args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start runs in the machine until the test ends, and its output is logged if it failed.
func (m *machine) start(args ...string) (stop func()) {
	m.t.Helper()
	var out lockedBuffer
	ctx, cancel := context.WithCancel(context.Background())
	cmd := m.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		cancel()
		m.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	m.t.Cleanup(func() {
		stop()
		if m.t.Failed() {
			m.t.Logf("%s:\n%s", strings.Join(args, " "), out.String())
		}
	})
	return stop
}

// read returns a file of the machine.
func (m *machine) read(path string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, path))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

func (m *machine) write(path, text string, mode os.FileMode) {
	m.t.Helper()
	file := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) has(path string) bool {
	_, err := os.Lstat(filepath.Join(m.root, path))
	return err == nil
}

// packages builds deb and rpm of this machine's architecture, as `make packages` does, and
// packagesFor the packages of any.
func packages(t *testing.T, version string) (dir string) {
	t.Helper()
	return packagesFor(t, runtime.GOARCH, version)
}

func packagesFor(t *testing.T, arch, version string) (dir string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	cmd := exec.Command("go", "run", "-C", filepath.Join(root, "deploy/release"), ".", "-root", root, "-out", dir, "-packages", "-arch", arch, "-version", version)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make packages: %v\n%s", err, out)
	}
	return dir
}

// unit reads what a service of systemd runs: systemd itself cannot run here.
func (m *machine) unit(name string) (exec []string, setting map[string]string) {
	m.t.Helper()
	setting = map[string]string{}
	for line := range strings.Lines(m.read("/usr/lib/systemd/system/" + name)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			setting[k] = v
		}
	}
	for line := range strings.Lines(m.read(strings.TrimPrefix(setting["EnvironmentFile"], "-"))) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			setting["ExecStart"] = strings.ReplaceAll(setting["ExecStart"], "$"+k, strings.Trim(v, `"`))
		}
	}
	return strings.Fields(setting["ExecStart"]), setting
}

// freePort is a port on which nothing listens, below those that the kernel gives to connections.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000)))
		if err != nil {
			continue
		}
		defer ln.Close()
		return ln.Addr().(*net.TCPAddr).Port
	}
	t.Fatal("no free port")
	return 0
}

// until asks again until the answer is right; 2 minutes are reached by a hang only.
func until(t *testing.T, what string, right func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := right()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestPackages installs the packages in a bare Debian, runs both services with the
// user and the capabilities of their units, upgrades, removes and purges them.
func TestPackages(t *testing.T) {
	m := newMachine(t, "root")
	one := packages(t, "1.0.0")
	for _, f := range []string{"reckon_1.0.0_" + runtime.GOARCH + ".deb", "reckon-agent_1.0.0_" + runtime.GOARCH + ".deb"} {
		if err := os.Link(filepath.Join(one, f), filepath.Join(m.root, f)); err != nil {
			raw, err := os.ReadFile(filepath.Join(one, f))
			if err != nil {
				t.Fatal(err)
			}
			m.write("/"+f, string(raw), 0o644)
		}
		m.must("dpkg", "-i", "/"+f)
	}
	if got := m.must("reckon-agent", "--version") + m.must("reckon", "version"); strings.Count(got, "1.0.0") < 2 {
		t.Errorf("versions:\n%s", got)
	}
	for _, unit := range []string{"reckon.service", "reckon-agent.service"} {
		path := "/usr/lib/systemd/system/" + unit
		m.must("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path)
		// 0 is nothing exposed and 100 everything; what runs as root unhardened has 96.
		out := m.must("systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold="+map[string]string{"reckon.service": "20", "reckon-agent.service": "40"}[unit], path)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		t.Log(lines[len(lines)-1])
	}

	m.must("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "/usr/lib/systemd/system/reckon-agent.socket")

	port, metrics := freePort(t), freePort(t)
	run := m.services(port, metrics)
	stop := run()
	if got := m.must("reckon", "--server", fmt.Sprintf("http://127.0.0.1:%d", port), "nodes"); !strings.Contains(got, "packaged") {
		t.Errorf("reckon nodes:\n%s", got)
	}
	text := page(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics))
	for _, sensor := range []string{"ebpf", "machine", "cgroup", "cpu", "memory"} {
		if !strings.Contains(text, fmt.Sprintf(`reckon_sensor_up{node="packaged",sensor="%s"} 1`, sensor)) && sensor != "ebpf" {
			t.Errorf("the sensor %s does not work with the capabilities of the unit", sensor)
		}
	}
	stop()

	// An upgrade keeps what was changed and what was measured.
	two := packages(t, "2.0.0")
	for _, f := range []string{"reckon_2.0.0_" + runtime.GOARCH + ".deb", "reckon-agent_2.0.0_" + runtime.GOARCH + ".deb"} {
		raw, err := os.ReadFile(filepath.Join(two, f))
		if err != nil {
			t.Fatal(err)
		}
		m.write("/"+f, string(raw), 0o644)
		m.must("dpkg", "-i", "/"+f)
	}
	if got := m.must("reckon", "version"); !strings.Contains(got, "2.0.0") {
		t.Errorf("after the upgrade: %s", got)
	}
	if got := m.read("/etc/reckon/agent.env"); !strings.Contains(got, "--node packaged") {
		t.Errorf("the upgrade replaced the configuration:\n%s", got)
	}
	stop = run()
	var nodes client.NodeList
	if err := get(fmt.Sprintf("http://127.0.0.1:%d/api/reckon/v1/nodes", port), &nodes); err != nil || len(nodes.Nodes) != 1 {
		t.Errorf("after the upgrade: %+v, %v", nodes.Nodes, err)
	}
	stop()

	// A downgrade keeps it too, where the schema is known.
	m.must("dpkg", "-i", "/reckon_1.0.0_"+runtime.GOARCH+".deb", "/reckon-agent_1.0.0_"+runtime.GOARCH+".deb")
	if got := m.must("reckon", "version"); !strings.Contains(got, "1.0.0") || !strings.Contains(m.read("/etc/reckon/agent.env"), "--node packaged") {
		t.Errorf("after the downgrade: %s", got)
	}
	stop = run()
	if err := get(fmt.Sprintf("http://127.0.0.1:%d/api/reckon/v1/nodes", port), &nodes); err != nil || len(nodes.Nodes) != 1 {
		t.Errorf("after the downgrade: %+v, %v", nodes.Nodes, err)
	}
	stop()
	m.refusesNewer()

	m.must("dpkg", "-r", "reckon", "reckon-agent")
	for path, stays := range map[string]bool{"/usr/bin/reckon": false, "/usr/bin/reckon-agent": false, "/usr/lib/systemd/system/reckon.service": false, "/etc/reckon/agent.env": true, "/var/lib/reckon/series": true} {
		if m.has(path) != stays {
			t.Errorf("after removal %s is there: %v", path, !stays)
		}
	}
	m.must("dpkg", "-P", "reckon", "reckon-agent")
	for _, path := range []string{"/etc/reckon", "/var/lib/reckon", "/var/lib/reckon-agent", "/usr/share/doc/reckon", "/usr/share/doc/reckon-agent"} {
		if m.has(path) {
			t.Errorf("after the purge %s is there", path)
		}
	}
	if strings.Contains(m.read("/etc/passwd"), "reckon") {
		t.Error("after the purge there is a user reckon")
	}
}

// capability numbers the capabilities of the agent's unit (linux/capability.h).
var capability = map[string]int{"CAP_DAC_READ_SEARCH": 2, "CAP_SYS_PTRACE": 19, "CAP_PERFMON": 38, "CAP_BPF": 39}

// services configures both services and returns what runs them, as their units do, until the node is
// at the server.
func (m *machine) services(port, metrics int) (run func() (stop func())) {
	t := m.t
	m.write("/etc/reckon/server.env", fmt.Sprintf("RECKON_FLAGS=\"--listen 127.0.0.1:%d\"\n", port), 0o644)
	m.write("/etc/reckon/agent.env", fmt.Sprintf("RECKON_AGENT_FLAGS=\"--push http://127.0.0.1:%d --export 1s --listen 127.0.0.1:%d --node packaged --state /var/lib/reckon-agent/state\"\n", port, metrics), 0o644)
	return func() (stop func()) {
		exec, unit := m.unit("reckon.service")
		server := m.start(append([]string{"setpriv", "--reuid", unit["User"], "--regid", unit["Group"], "--clear-groups", "--bounding-set=-all", "--no-new-privs"}, exec...)...)
		exec, unit = m.unit("reckon-agent.service")
		if got := m.read("/etc/systemd/system/reckon-agent.service.d/local-token.conf"); !strings.Contains(got, "LoadCredential=local.token:/etc/reckon/local.token") {
			t.Errorf("the package has not given the agent a token: %s", got)
		}
		var caps []string
		for _, c := range strings.Fields(unit["AmbientCapabilities"]) {
			caps = append(caps, fmt.Sprintf("+cap_%d", capability[c])) // setpriv of an older Debian knows not all names
		}
		set := strings.Join(caps, ",")
		m.must("install", "-d", "-o", "65534", "-m", "0700", "/var/lib/reckon-agent")
		agent := m.start(append([]string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=" + set, "--ambient-caps=" + set, "--bounding-set=-all," + set, "--no-new-privs", "env", "CREDENTIALS_DIRECTORY=/etc/reckon", "STATE_DIRECTORY=/var/lib/" + unit["StateDirectory"]}, exec...)...)
		until(t, "the node at the server", func() error {
			var nodes client.NodeList
			if err := get(fmt.Sprintf("http://127.0.0.1:%d/api/reckon/v1/nodes", port), &nodes); err != nil {
				return err
			}
			for _, n := range nodes.Nodes {
				if n.Node == "packaged" {
					return nil
				}
			}
			return fmt.Errorf("nodes: %+v", nodes.Nodes)
		})
		return func() { agent(); server() }
	}
}

// refusesNewer makes the catalogue one of a newer version: the server does not start, reports what to do
// and changes nothing.
func (m *machine) refusesNewer() {
	m.t.Helper()
	file := filepath.Join(m.root, "var/lib/reckon/catalogue.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		m.t.Fatal(err)
	}
	_, err = db.Exec(`INSERT INTO migrations (version, name, applied_ms) VALUES (9999, 'future', 0)`)
	if err = errors.Join(err, db.Close()); err != nil {
		m.t.Fatal(err)
	}
	_ = os.Remove(file + ".closed") // the file was changed on purpose
	before, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	out, err := m.command(ctx, "setpriv", "--reuid", "reckon", "--regid", "reckon", "--clear-groups", "reckon", "serve", "--data", "/var/lib/reckon", "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(m.t))).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "install the newer reckon again") {
		m.t.Errorf("with a newer catalogue: %v\n%s", err, out)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		m.t.Errorf("the newer catalogue was changed: %v", err)
	}
}

// TestRPM installs, upgrades and removes the rpm.
func TestRPM(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("rpm is not installed")
	}
	m := newMachine(t, "root")
	rpm := func(args ...string) string {
		t.Helper()
		// The libraries of this Debian are no packages of rpm.
		out, err := exec.Command("rpm", append([]string{"--root", m.root, "--nodeps"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rpm %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	files := func(dir string) []string {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(dir, "*.rpm"))
		if err != nil || len(list) != 2 {
			t.Fatalf("%v %v", list, err)
		}
		return list
	}
	one := packages(t, "1.0.0")
	rpm(append([]string{"-i"}, files(one)...)...)
	if got := m.must("reckon", "version"); !strings.Contains(got, "1.0.0") {
		t.Errorf("installed: %s", got)
	}
	if got := m.must("stat", "-c", "%U %a", "/var/lib/reckon"); got != "reckon 750\n" {
		t.Errorf("the data directory: %s", got)
	}
	m.write("/etc/reckon/server.env", "RECKON_FLAGS=\"--site mine\"\n", 0o644)
	rpm(append([]string{"-U"}, files(packages(t, "1.1.0"))...)...)
	if got := m.must("reckon", "version"); !strings.Contains(got, "1.1.0") || !strings.Contains(m.read("/etc/reckon/server.env"), "--site mine") {
		t.Errorf("after the upgrade: %s, %s", got, m.read("/etc/reckon/server.env"))
	}
	rpm(append([]string{"-U", "--oldpackage"}, files(one)...)...)
	if got := m.must("reckon", "version"); !strings.Contains(got, "1.0.0") || !strings.Contains(m.read("/etc/reckon/server.env"), "--site mine") {
		t.Errorf("after the downgrade: %s, %s", got, m.read("/etc/reckon/server.env"))
	}
	rpm("-e", "reckon", "reckon-agent")
	if m.has("/usr/bin/reckon") || m.has("/usr/lib/systemd/system/reckon-agent.service") || !m.has("/var/lib/reckon") {
		t.Error("after removal programs are there, or data are not")
	}
}

// TestReproducible: two builds of the same sources are the same.
func TestReproducible(t *testing.T) {
	var sums [2][]byte
	for i := range sums {
		var err error
		if sums[i], err = os.ReadFile(filepath.Join(packages(t, "1.0.0"), "SHA256SUMS")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(sums[0], sums[1]) || len(sums[0]) == 0 {
		t.Errorf("first:\n%s\nsecond:\n%s", sums[0], sums[1])
	}
}

func get(target string, answer any) error {
	resp, err := http.Get(target)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", target, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

func page(t *testing.T, target string) string {
	t.Helper()
	resp, err := http.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
