package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// debianKeyring signs the Debian archive.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// packageArchive is a view of the Debian package archive for one suite and architecture, which may differ from the suite and
// architecture of this
// machine. Its state is in a separate directory.
type packageArchive struct {
	dir     string
	options []string
}

func openArchive(ctx context.Context, cache, suite, arch string) (*packageArchive, error) {
	a := &packageArchive{dir: filepath.Join(cache, "apt-"+suite+"-"+arch)}
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	sources := fmt.Sprintf("deb [signed-by=%s] http://deb.debian.org/debian %s main\n", debianKeyring, suite)
	if !strings.Contains(suite, "-") {
		sources += fmt.Sprintf("deb [signed-by=%s] http://deb.debian.org/debian-security %s-security main\n", debianKeyring, suite)
	}
	for name, text := range map[string]string{"sources.list": sources, "status": ""} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	for _, o := range []string{
		"Dir::State=" + a.dir, "Dir::State::lists=" + a.dir + "/lists", "Dir::State::status=" + a.dir + "/status",
		"Dir::Cache=" + a.dir + "/cache",
		"Dir::Etc::SourceList=" + a.dir + "/sources.list", "Dir::Etc::SourceParts=-", "APT::Architecture=" + arch,
		"APT::Architectures=" + arch,
		"APT::Sandbox::User=", "Acquire::Languages=none",
	} {
		a.options = append(a.options, "-o", o)
	}
	_, err := a.runApt(ctx, "apt-get", "-qq", "update")
	return a, err
}

func (a *packageArchive) runApt(ctx context.Context, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, append(a.options, args...)...)
	c.Dir = a.dir
	out, err := c.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(failed.Stderr)))
	}
	return string(out), err
}

// extractFiles extracts the files of a package at the given paths into dir.
func (a *packageArchive) extractFiles(ctx context.Context, name, dir string, paths ...string) error {
	if _, err := a.runApt(ctx, "apt-get", "-qq", "download", name); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(a.dir, name+"_*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("package %s was not fetched", name)
	}
	defer func() {
		for _, d := range debs {
			_ = os.Remove(d)
		}
	}()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", debs[len(debs)-1])
	unpack := exec.CommandContext(ctx, "tar", append([]string{"-x", "-C", dir, "--wildcards"}, paths...)...)
	pipe, err := data.StdoutPipe()
	if err != nil {
		return err
	}
	unpack.Stdin = pipe
	if err := data.Start(); err != nil {
		return err
	}
	out, err := unpack.CombinedOutput()
	if wait := data.Wait(); wait != nil && err == nil {
		err = wait
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w: %s", name, err, out)
	}
	return nil
}

// fetchKernel returns the kernel of a suite and a busybox for its machine, from the cache if they are there.
func fetchKernel(ctx context.Context, cache, suite, arch string) (image, busybox string, err error) {
	dir := filepath.Join(cache, suite+"-"+arch)
	find := func() bool {
		images, _ := filepath.Glob(dir + "/boot/vmlinuz-*")
		boxes, _ := filepath.Glob(dir + "/*bin/busybox")
		more, _ := filepath.Glob(dir + "/usr/bin/busybox")
		boxes = append(boxes, more...)
		parts, _ := filepath.Glob(dir + "/lib/modules/*/kernel/net/sunrpc") // the last folder that was added
		if len(images) == 0 || len(boxes) == 0 || len(parts) == 0 {
			return false
		}
		image, busybox = images[len(images)-1], boxes[0]
		return true
	}
	if find() {
		return image, busybox, nil
	}
	a, err := openArchive(ctx, cache, suite, arch)
	if err != nil {
		return "", "", err
	}
	// The package linux-image-ARCH only names the newest.
	out, err := a.runApt(ctx, "apt-cache", "depends", "linux-image-"+arch)
	if err != nil {
		return "", "", err
	}
	name := ""
	for line := range strings.Lines(out) {
		if d, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && name == "" {
			name = d
		}
	}
	if name == "" {
		return "", "", fmt.Errorf("%s has no kernel for %s", suite, arch)
	}
	if err := a.extractFiles(ctx, name, dir, append([]string{"./boot/vmlinuz-*"}, moduleFolders()...)...); err != nil {
		return "", "", err
	}
	if strings.Contains(suite, "-") { // backports hold no busybox
		if a, err = openArchive(ctx, cache, strings.SplitN(suite, "-", 2)[0], arch); err != nil {
			return "", "", err
		}
	}
	if err := a.extractFiles(ctx, "busybox-static", dir, "*bin/busybox"); err != nil {
		return "", "", err
	}
	if !find() {
		return "", "", fmt.Errorf("the packages of %s hold no kernel or no busybox", suite)
	}
	return image, busybox, nil
}
