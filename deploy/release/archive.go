package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// archive writes reckon-VERSION-linux-ARCH.tar.gz with both static binaries, which run
// on any Linux, and a bill of materials beside it for each.
func (r *release) archive(ctx context.Context, arch string) (err error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := fmt.Sprintf("reckon-%s-linux-%s", r.version, arch)
	files := map[string]string{"LICENSE": "", "README.md": ""}
	for _, c := range commands {
		bin, err := r.build(ctx, arch, "", c, dir)
		if err != nil {
			return err
		}
		files[c] = bin
		if err := r.bill(bin, filepath.Join(r.out, fmt.Sprintf("%s-%s-linux-%s.cdx.json", c, r.version, arch))); err != nil {
			return err
		}
	}
	files["LICENSE"], files["README.md"] = filepath.Join(r.root, "LICENSE"), filepath.Join(r.root, "README.md")
	f, err := os.Create(filepath.Join(r.out, name+".tar.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	order := []string{"LICENSE", "README.md", "reckon", "reckon-agent"}
	for _, file := range order {
		if err := r.pack(t, name+"/"+file, files[file]); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func (r *release) pack(t *tar.Writer, name, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
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

const sums = "SHA256SUMS"

// checksums writes the SHA-256 of everything, in the form of sha256sum.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		if e.IsDir() || e.Name() == sums {
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
	return os.WriteFile(filepath.Join(r.out, sums), []byte(text.String()), 0o644)
}
