//go:build e2e

package e2e

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"reckon/web/client"
)

// builder is buildah with a storage of its own. Its containers run in a chroot, which
// needs neither a daemon nor control groups.
type builder struct {
	t   *testing.T
	dir string
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for root file systems of its own")
	}
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("buildah is not installed; script/setup e2e installs it")
	}
	b := &builder{t, t.TempDir()}
	t.Cleanup(func() { _ = exec.Command("buildah", b.args("rm", "--all")...).Run() }) // unmounts
	return b
}

// args puts the storage before the words of buildah and podman.
func (b *builder) args(words ...string) []string {
	return append([]string{"--root", filepath.Join(b.dir, "storage"), "--runroot", filepath.Join(b.dir, "run"), "--storage-driver", "vfs"}, words...)
}

func (b *builder) do(words ...string) string {
	b.t.Helper()
	out, err := exec.Command("buildah", b.args(words...)...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("buildah %s: %v\n%s", strings.Join(words, " "), err, out[max(0, len(out)-3000):])
	}
	return strings.TrimSpace(string(out))
}

// config is the statement of an image about itself.
func (b *builder) config(image string) (c struct {
	OCIv1 struct {
		Architecture string
		Config       struct {
			User            string
			Entrypoint, Cmd []string
			Volumes         map[string]struct{}
			ExposedPorts    map[string]struct{}
		}
	}
}) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.do("inspect", "--type", "image", image)), &c); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// in runs a program in a container of an image, with mounts as flags.
func (b *builder) in(image string, flags []string, words ...string) string {
	b.t.Helper()
	c := b.do("from", "--pull-never", image)
	defer b.do("rm", c)
	return b.do(slices.Concat([]string{"run", "--isolation", "chroot"}, flags, []string{c}, words)...)
}

// checks runs both images: what they claim to start is there and starts, the agent
// measures the host that is mounted, the server keeps its data as a user of its own.
func (b *builder) checks(agent, server, version string) {
	t := b.t
	t.Helper()
	for image, want := range map[string]string{
		agent:  `[/usr/bin/reckon-agent] [--root /host]  []`,
		server: `[/usr/bin/reckon] [serve --listen 0.0.0.0:9870 --data /data] 65532:65532 [/data 9870/tcp]`,
	} {
		c := b.config(image).OCIv1
		var places []string
		for v := range c.Config.Volumes {
			places = append(places, v)
		}
		for p := range c.Config.ExposedPorts {
			places = append(places, p)
		}
		if got := fmt.Sprintf("%v %v %s %v", c.Config.Entrypoint, c.Config.Cmd, c.Config.User, places); got != want || c.Architecture != runtime.GOARCH {
			t.Errorf("%s, for %s:\n got %s\nwant %s", image, c.Architecture, got, want)
		}
	}
	if got := b.in(agent, nil, "/usr/bin/reckon-agent", "--version") + b.in(server, nil, "/usr/bin/reckon", "version"); strings.Count(got, version) != 2 {
		t.Errorf("versions:\n%s", got)
	}
	out := b.in(agent, []string{"-v", "/:/host:ro"}, "/usr/bin/reckon-agent", "check", "--root", "/host")
	for _, sensor := range []string{"machine", "cgroup", "cpu", "memory", "filesystem", "timex"} {
		if !strings.Contains(out, "ok    "+sensor+"\n") {
			t.Errorf("the agent in its image does not read %s:\n%s", sensor, out)
		}
	}
	// As it is shipped it lets nobody in unasked, and reports what to do.
	c := b.do("from", "--pull-never", server)
	defer b.do("rm", c)
	run := b.args("run", "--isolation", "chroot", c, "/usr/bin/reckon")
	text, err := exec.Command("buildah", append(run, "serve", "--listen", "0.0.0.0:0", "--data", "/data")...).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "reckon user add NAME --role admin --data /data") {
		t.Errorf("without a password: %v: %s", err, text)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	var log lockedBuffer
	serve := exec.Command("buildah", append(run, "serve", "--listen", addr, "--data", "/data")...)
	serve.Stdout, serve.Stderr = &log, &log
	serve.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-serve.Process.Pid, syscall.SIGTERM)
		_ = serve.Wait()
		if t.Failed() {
			t.Logf("the server: %s", log.String())
		}
	}()
	until(t, "the server in its image answers", func() error {
		var list client.WorkloadList
		return get("http://"+addr+"/api/reckon/v1/workloads?limit=1", &list)
	})
}

// TestImages loads the images that `make release` writes, as podman and docker do, and
// runs them.
func TestImages(t *testing.T) {
	b := newBuilder(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	cmd := exec.Command("go", "run", "-C", filepath.Join(root, "deploy/release"), ".", "-root", root, "-out", out, "-images", "-arch", runtime.GOARCH, "-version", "3.2.1+5.gabc")
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("images: %v\n%s", err, text)
	}
	for _, command := range []string{"reckon", "reckon-agent"} {
		file := filepath.Join(out, command+"-3.2.1+5.gabc-linux-"+runtime.GOARCH+".image.tar")
		b.do("pull", "docker-archive:"+file)
		tagged(t, file, "localhost/reckon/"+command+":3.2.1-5.gabc")
	}
	b.checks("localhost/reckon/reckon-agent:3.2.1-5.gabc", "localhost/reckon/reckon:3.2.1-5.gabc", "3.2.1+5.gabc")
	b.podman("localhost/reckon/reckon-agent:3.2.1-5.gabc")
}

// tagged finds the name under which `docker load` files an image.
func tagged(t *testing.T, file, want string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s has no manifest: %v", file, err)
		}
		if h.Name != "manifest.json" {
			continue
		}
		raw, err := io.ReadAll(r)
		if err != nil || !strings.Contains(string(raw), `"`+want+`"`) {
			t.Errorf("the manifest does not name %s: %s %v", want, raw, err)
		}
		return
	}
}

// podman runs the agent according to doc/guides/install.md, where containers can be run.
func (b *builder) podman(agent string) {
	b.t.Run("podman", func(t *testing.T) {
		if _, err := exec.LookPath("podman"); err != nil {
			t.Skip("podman is not installed")
		}
		guide, err := os.ReadFile("../../doc/guides/install.md")
		if err != nil {
			t.Fatal(err)
		}
		_, line, ok := strings.Cut(string(guide), "    podman run ")
		line, _, end := strings.Cut(line, " localhost/reckon/reckon-agent:VERSION")
		if !ok || !end {
			t.Fatal("doc/guides/install.md does not say how the agent is run by podman")
		}
		words := b.args("--cgroup-manager", "cgroupfs")
		if path, err := exec.LookPath("runc"); err == nil {
			words = append(words, "--runtime", path)
		}
		words = append(words, "run", "--rm", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000")
		plain := append(slices.Clone(words), "--network=host", agent, "--version")
		if out, err := exec.Command("podman", plain...).CombinedOutput(); err != nil {
			t.Skipf("podman runs no containers here: %v: %s", err, out)
		}
		words = append(words, strings.Fields(strings.ReplaceAll(line, "\\\n", " "))...)
		out, err := exec.Command("podman", append(words, agent, "check", "--root", "/host")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			// On a kernel that has BPF the flags of the guide are enough for it.
			if strings.Contains(line, "ebpf: no permission") || strings.Contains(line, "ebpf: a seccomp filter") {
				t.Errorf("with the flags of doc/guides/install.md: %s", line)
			}
		}
		if !strings.Contains(string(out), "ok    cgroup\n") {
			t.Errorf("%s", out)
		}
	})
}

// TestDockerfile builds deploy/packages/Dockerfile. The compiler's image is made from the
// compiler of this machine, since a registry cannot be asked.
func TestDockerfile(t *testing.T) {
	b := newBuilder(t)
	golang := b.golang()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	env := func(name string) string {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	for target, image := range map[string]string{"agent": "localhost/built/reckon-agent", "server": "localhost/built/reckon"} {
		b.do("bud", "--layers", "--pull-never", "--isolation", "chroot", "-v", env("GOROOT")+":/usr/local/go:ro", "-v", env("GOMODCACHE")+":/go/pkg/mod",
			"-v", env("GOCACHE")+":/tmp/.cache/go-build", "--build-arg", "VERSION=3.2.1", "--build-arg", "GO="+golang,
			"--target", target, "-t", image, "-f", filepath.Join(root, "deploy/packages/Dockerfile"), root)
	}
	b.checks("localhost/built/reckon-agent", "localhost/built/reckon", "3.2.1")
	if certs := b.do("from", "--pull-never", "localhost/built/reckon-agent"); certs != "" {
		if _, err := os.Stat(filepath.Join(b.do("mount", certs), "etc/ssl/certs/ca-certificates.crt")); err != nil {
			t.Errorf("the agent cannot speak TLS: %v", err)
		}
	}
}

// golang makes a small image with a shell and certificates, to which the compiler of this
// machine is mounted, under the name that the Dockerfile asks for; it returns its tag.
func (b *builder) golang() (tag string) {
	t := b.t
	t.Helper()
	file, err := os.Open("../../deploy/packages/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "ARG GO="); ok {
			tag = v
		}
	}
	c := b.do("from", "scratch")
	root := b.do("mount", c)
	script := `set -e
mkdir -p "$0/bin" "$0/etc/ssl/certs" "$0/tmp"
cp -L /bin/sh /bin/mkdir "$0/bin/"
cp -L /etc/ssl/certs/ca-certificates.crt "$0/etc/ssl/certs/"
ldd /bin/sh /bin/mkdir | grep -o '/lib[^ ]*' | sort -u | while read -r lib; do mkdir -p "$0$(dirname "$lib")"; cp -L "$lib" "$0$lib"; done`
	if out, err := exec.Command("sh", "-c", script, root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.do("umount", c)
	b.do("config", "--env", "PATH=/usr/local/go/bin:/bin", "--env", "GOPATH=/go", "--env", "HOME=/tmp", c)
	b.do("commit", "-q", c, "docker.io/library/golang:"+tag)
	b.do("rm", c)
	return tag
}
