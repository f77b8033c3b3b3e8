// Command release builds the artifacts of a release: static binaries for each architecture,
// packages (deb, rpm), container images from scratch, a software bill of materials for each binary,
// and checksums.
//
//	go run -C deploy/release . -root ../.. -out dist            # make release
//	go run -C deploy/release . -root ../.. -out dist -packages  # make packages
//	go run -C deploy/release . -root ../.. -out dist -images    # container images
//
// With SIGN_KEY=FILE, a private key of OpenSSH, the checksums are signed (ssh-keygen -Y sign -n
// reckon). The installer and the chart are among the files.
//
// The same commit with the same Go gives the same bytes: paths are trimmed, times are the time of
// the commit (or SOURCE_DATE_EPOCH), and nothing depends on the building machine. The command is a
// module of its own, so that the program does not depend on the library that writes packages.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// release is one run.
type release struct {
	root, out string
	version   string
	time      time.Time
	arch      []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := release{}
	var packages, images bool
	var arch string
	flag.StringVar(&r.root, "root", ".", "the root of the repository")
	flag.StringVar(&r.out, "out", "dist", "where to write, below the root unless absolute")
	flag.StringVar(&r.version, "version", "", "version to write into what is built (default: from git)")
	flag.StringVar(&arch, "arch", "amd64,arm64", "architectures")
	flag.BoolVar(&packages, "packages", false, "build deb and rpm only")
	flag.BoolVar(&images, "images", false, "build container images only")
	flag.Parse()
	r.arch = strings.Split(arch, ",")
	all := !packages && !images
	if err := r.runRelease(ctx, all, all || images, all || packages); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) runRelease(ctx context.Context, archives, images, packages bool) error {
	var err error
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	if !filepath.IsAbs(r.out) {
		r.out = filepath.Join(r.root, r.out)
	}
	if err := r.setVersion(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, arch := range r.arch {
		for _, step := range []struct {
			wanted bool
			do     func(context.Context, string) error
		}{{archives, r.writeArchive}, {images, r.writeImages}, {packages, r.packages}} {
			if !step.wanted {
				continue
			}
			if err := step.do(ctx, arch); err != nil {
				return fmt.Errorf("%s: %w", arch, err)
			}
		}
	}
	if archives {
		if err := errors.Join(r.packChart(), r.copyFile("deploy/release/install.sh", "install.sh", 0o755)); err != nil {
			return err
		}
	}
	if err := r.writeChecksums(); err != nil {
		return err
	}
	return r.signChecksums(ctx, os.Getenv("SIGN_KEY"))
}

// setVersion determines the version and the time of the build.
func (r *release) setVersion(ctx context.Context) error {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = r.runGit(ctx, "log", "-1", "--format=%ct"); err != nil {
			return fmt.Errorf("the time of the commit is not known: %w; give it in SOURCE_DATE_EPOCH", err)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("the time of the commit: %w", err)
	}
	r.time = time.Unix(n, 0).UTC()
	if r.version != "" {
		return nil
	}
	stated, err := r.readVersion()
	if err != nil {
		return err
	}
	if text, err = r.runGit(ctx, "describe", "--tags", "--always", "--dirty", "--match", "v*"); err != nil {
		return fmt.Errorf("the commit is not known: %w; give the version with -version", err)
	}
	r.version, err = describeVersion(stated, text, r.time)
	return err
}

// readVersion returns the version of the file VERSION, the only place that states it.
func (r *release) readVersion() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "internal", "buildinfo", "VERSION"))
	return strings.TrimSpace(string(text)), err
}

// describeVersion returns stated, the version in the source, if the commit has the tag of that version. For other commits it
// appends the time and the commit: 0.1.0+20261121.083000.gabc. described is the output of git describe. It returns an error if
// the commit has the tag of another version.
func describeVersion(stated, described string, at time.Time) (string, error) {
	described, isDirty := strings.CutSuffix(described, "-dirty")
	commit := described[strings.LastIndexByte(described, '-')+1:]
	v := stated
	switch tag, isTagged := strings.CutPrefix(described, "v"); {
	case isTagged && tag == stated:
	case isTagged && !strings.HasPrefix(commit, "g"):
		return "", fmt.Errorf("the tag v%s is of another version than internal/buildinfo/VERSION, which has %s", tag, stated)
	default:
		v += "+" + at.Format("20060102.150405") + ".g" + strings.TrimPrefix(commit, "g")
	}
	if isDirty {
		v += map[bool]string{true: ".dirty", false: "+dirty"}[strings.Contains(v, "+")]
	}
	return v, nil
}

func (r *release) runGit(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.root
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %s", args[0], bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}

// buildCommand builds one command. tags may be empty.
func (r *release) buildCommand(ctx context.Context, arch, tags, name, dir string) (string, error) {
	file := filepath.Join(dir, name)
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-tags", tags,
		"-ldflags", "-s -w -X reckon/internal/buildinfo.Version=" + r.version, "-o", file, "./cmd/" + name,
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	if cmd.Dir = r.root; name == operatorCommand {
		cmd.Dir = filepath.Join(r.root, "kubernetes", "operator")
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return file, nil
}

// commands are the commands to build.
var commands = []string{"reckon", "reckon-agent"}

// operatorCommand is a program in a separate module that runs only in clusters. It has an image but no package.
const operatorCommand = "reckon-operator"

// writeCompletions makes a local binary write its shell completions and manual pages.
func (r *release) writeCompletions(ctx context.Context, dir string) error {
	bin, err := r.buildCommand(ctx, runtime.GOARCH, "", "reckon", dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "completions"), 0o755); err != nil {
		return err
	}
	for shell, file := range map[string]string{"bash": "reckon.bash", "zsh": "_reckon", "fish": "reckon.fish"} {
		text, err := exec.CommandContext(ctx, bin, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("reckon completion %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "completions", file), text, 0o644); err != nil {
			return err
		}
	}
	agent, err := r.buildCommand(ctx, runtime.GOARCH, "", "reckon-agent", dir)
	if err != nil {
		return err
	}
	return errors.Join(r.writeManuals(ctx, bin, filepath.Join(dir, "man")), r.writeManuals(ctx, agent, filepath.Join(dir, "man-agent")))
}

// writeManuals writes the manual pages, compressed as Debian's policy requires.
func (r *release) writeManuals(ctx context.Context, bin, dir string) error {
	if text, err := exec.CommandContext(ctx, bin, "man", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%s man: %w: %s", filepath.Base(bin), err, text)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression) // without a time: the same input gives the same file
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(page+".gz", packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
