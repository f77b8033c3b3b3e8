//go:build e2e

package e2e

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"reckon/web/client"
)

// arm64Root is a Debian for arm64 with ca-certificates: the one of RECKON_ARM64_ROOT, or one that is made now.
// The programs in it are run by QEMU, which binfmt_misc has to know.
func arm64Root(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for a root file system of its own")
	}
	if _, err := os.Stat("/proc/sys/fs/binfmt_misc/qemu-aarch64"); err != nil && runtime.GOARCH != "arm64" {
		t.Skip("binfmt_misc does not run programs for arm64: install qemu-user-static, mount binfmt_misc and write /usr/lib/binfmt.d/qemu-aarch64.conf to its register")
	}
	if dir := os.Getenv("RECKON_ARM64_ROOT"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	// The oldest release that can be had.
	if out, err := exec.Command("debootstrap", "--arch=arm64", "--variant=minbase", "--include=adduser,ca-certificates", "bullseye", dir).CombinedOutput(); err != nil {
		t.Skipf("no bare Debian for arm64 could be had: %v\n%s", err, out[max(0, len(out)-1000):])
	}
	return dir
}

// TestARM64 builds the packages for arm64 and installs, runs, upgrades, downgrades and purges them in a Debian for arm64.
func TestARM64(t *testing.T) {
	m := machineOver(t, "root", arm64Root(t))
	install := func(version string) {
		t.Helper()
		began := time.Now()
		dir := packagesFor(t, "arm64", version)
		t.Logf("the packages of %s were built in %.0f s", version, time.Since(began).Seconds())
		var names []string
		for _, f := range []string{"reckon_" + version + "_arm64.deb", "reckon-agent_" + version + "_arm64.deb"} {
			raw, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil {
				t.Fatal(err)
			}
			m.write("/"+f, string(raw), 0o644)
			names = append(names, "/"+f)
		}
		m.must(append([]string{"dpkg", "-i"}, names...)...)
	}
	version := func(want string) {
		t.Helper()
		if got := m.must("reckon", "version") + m.must("reckon-agent", "--version"); strings.Count(got, want) != 2 || strings.Count(got, "linux/arm64") != 2 {
			t.Errorf("versions, want %s:\n%s", want, got)
		}
	}
	install("1.0.0")
	version("1.0.0")
	port, metrics := freePort(t), freePort(t)
	run := m.services(port, metrics)
	stop := run()
	if got := m.must("reckon", "--server", fmt.Sprintf("http://127.0.0.1:%d", port), "nodes"); !strings.Contains(got, "packaged") {
		t.Errorf("reckon nodes:\n%s", got)
	}
	stop()

	install("2.0.0")
	version("2.0.0")
	stop = run()
	var nodes client.NodeList
	if err := get(fmt.Sprintf("http://127.0.0.1:%d/api/reckon/v1/nodes", port), &nodes); err != nil || len(nodes.Nodes) != 1 {
		t.Errorf("after the upgrade: %+v, %v", nodes.Nodes, err)
	}
	stop()

	m.must("dpkg", "-i", "/reckon_1.0.0_arm64.deb", "/reckon-agent_1.0.0_arm64.deb")
	version("1.0.0")
	run()()
	m.refusesNewer()
	m.must("dpkg", "-P", "reckon", "reckon-agent")
	if m.has("/var/lib/reckon") || m.has("/usr/bin/reckon") {
		t.Error("the purge left something")
	}
}

// TestMusl runs the static programs in a root that has musl's loader and no other: server and agent, and a
// question to them. A program that needs glibc does not start there, one that was linked with musl does.
func TestMusl(t *testing.T) {
	loader, err := filepath.Glob("/lib/ld-musl-*.so.1")
	if err != nil || len(loader) != 1 || os.Getuid() != 0 {
		t.Skip("needs root and musl's loader in /lib (Debian's package musl)")
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "bin")+"/", "../../cmd/reckon", "../../cmd/reckon-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build-static`
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	put := func(from, to string) {
		t.Helper()
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), raw, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(loader[0], loader[0])
	for _, name := range []string{"reckon", "reckon-agent"} {
		f, err := elf.Open(filepath.Join(dir, "bin", name))
		if err != nil {
			t.Fatal(err)
		}
		if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
			t.Errorf("%s needs %v (%v)", name, libs, err)
		}
		f.Close()
	}
	put("/bin/true", "/bin/glibc-true")
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := &machine{t: t, root: dir}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := m.command(ctx, "/bin/glibc-true").CombinedOutput(); err == nil {
		t.Errorf("a program of glibc runs here: %s", out)
	}
	if gcc, err := exec.LookPath("musl-gcc"); err == nil {
		source := filepath.Join(t.TempDir(), "hello.c")
		if err := os.WriteFile(source, []byte("#include <stdio.h>\nint main(void) { puts(\"musl\"); return 0; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(gcc, "-o", filepath.Join(dir, "bin/hello"), source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := m.must("/bin/hello"); got != "musl\n" {
			t.Errorf("a program of musl says %q", got)
		}
	}
	port := freePort(t)
	server := m.start("/bin/reckon", "serve", "--data", "/var/lib/reckon", "--listen", fmt.Sprintf("127.0.0.1:%d", port))
	agent := m.start("/bin/reckon-agent", "--push", fmt.Sprintf("http://127.0.0.1:%d", port), "--export", "1s", "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)), "--node", "musl", "--state", "/run/agent.state")
	until(t, "the node at the server", func() error {
		got, err := m.command(t.Context(), "/bin/reckon", "--server", fmt.Sprintf("http://127.0.0.1:%d", port), "nodes").CombinedOutput()
		if err != nil || !strings.Contains(string(got), "musl") {
			return fmt.Errorf("%v: %s", err, got)
		}
		return nil
	})
	agent()
	server()
}
