package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// writeArchive writes reckon-VERSION-linux-ARCH.tar.gz with both static binaries, which run on any Linux. It writes a bill
// of materials for each binary beside the archive.
func (r *release) writeArchive(ctx context.Context, arch string) error {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := fmt.Sprintf("reckon-%s-linux-%s", r.version, arch)
	files := map[string]string{"LICENSE": "", "README.md": ""}
	for _, c := range commands {
		bin, err := r.buildCommand(ctx, arch, "", c, dir)
		if err != nil {
			return err
		}
		files[c] = bin
		if err := r.writeBill(bin, filepath.Join(r.out, fmt.Sprintf("%s-%s-linux-%s.cdx.json", c, r.version, arch))); err != nil {
			return err
		}
	}
	files["LICENSE"], files["README.md"] = filepath.Join(r.root, "LICENSE"), filepath.Join(r.root, "README.md")
	return r.writeTarball(name+".tar.gz", func(t *tar.Writer) error {
		for _, file := range []string{"LICENSE", "README.md", "reckon", "reckon-agent"} {
			if err := r.addFile(t, name+"/"+file, files[file]); err != nil {
				return err
			}
		}
		for _, pattern := range []string{"[ACS]*.md", "deploy/alerts/*.yml", "deploy/dashboards/*.json", "deploy/dashboards/*.yaml",
			"deploy/systemd/*", "doc/*.md", "doc/decisions/*.md", "doc/guides/*.md", "doc/images/*"} {
			list, err := filepath.Glob(filepath.Join(r.root, pattern))
			if err != nil {
				return err
			}
			for _, file := range list {
				if err := r.addFile(t, name+"/"+filepath.ToSlash(strings.TrimPrefix(file, filepath.Clean(r.root)+"/")), file); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// writeTarball writes a compressed archive filled by fill.
func (r *release) writeTarball(name string, fill func(*tar.Writer) error) (err error) {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	return errors.Join(fill(t), t.Close(), z.Close())
}

func (r *release) addFile(t *tar.Writer, name, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if name == "reckon/Chart.yaml" { // it names the images of this release
		raw = regexp.MustCompile(`(?m)^appVersion: .*`).ReplaceAll(raw, fmt.Appendf(nil, "appVersion: %q", imageTag(r.version)))
	}
	mode := int64(0o644)
	if slices.Contains(commands, filepath.Base(name)) {
		mode = 0o755
	}
	if err := t.WriteHeader(&tar.Header{Name: name, Size: int64(len(raw)), Mode: mode, ModTime: r.time,
		Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = t.Write(raw)
	return err
}

const sumsFile = "SHA256SUMS"

// writeChecksums writes the SHA-256 of everything, in the form of sha256sum.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		if e.IsDir() || e.Name() == sumsFile || e.Name() == sumsFile+".sig" {
			continue
		}
		h := sha256.New()
		f, err := os.Open(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		_, err = io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", h.Sum(nil), e.Name())
	}
	fmt.Print(text.String())
	return os.WriteFile(filepath.Join(r.out, sumsFile), []byte(text.String()), 0o644)
}

// signChecksums signs the checksums with a private key of OpenSSH; without a key the release is unsigned, and reports it.
func (r *release) signChecksums(ctx context.Context, key string) error {
	file := filepath.Join(r.out, sumsFile)
	if err := os.Remove(file + ".sig"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if key == "" {
		fmt.Println("unsigned: SIGN_KEY=FILE names a private key of OpenSSH that signs " + sumsFile)
		return nil
	}
	if out, err := exec.CommandContext(ctx, "ssh-keygen", "-Y", "sign", "-n", "reckon", "-f", key, file).CombinedOutput(); err != nil {
		return fmt.Errorf("sign %s: %w: %s", sumsFile, err, out)
	}
	return nil
}

func (r *release) copyFile(from, name string, mode os.FileMode) error {
	raw, err := os.ReadFile(filepath.Join(r.root, from))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), raw, mode)
}

// packChart writes the chart as helm packs it: reckon-VERSION.tgz, with the files that its links lead to.
func (r *release) packChart() error {
	root := filepath.Join(r.root, "deploy", "helm", "reckon")
	stated, err := r.readVersion()
	if err != nil {
		return err
	}
	return r.writeTarball("reckon-"+stated+".tgz", func(t *tar.Writer) error {
		return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			return r.addFile(t, "reckon/"+filepath.ToSlash(name), file)
		})
	})
}
