package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeImages writes a container image for each command, which contains only the static binary of the command. `docker
// load`, `podman load` and `ctr images import` accept it, and no builder is needed. To connect to other servers over
// TLS, mount certificates at /etc/ssl/certs, or build with deploy/packages/Dockerfile.
func (r *release) writeImages(ctx context.Context, arch string) error {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for command, config := range map[string]v1.Config{
		"reckon-agent": {Entrypoint: []string{"/usr/bin/reckon-agent"}, Cmd: []string{"--root", "/host"}},
		"reckon": {
			Entrypoint: []string{"/usr/bin/reckon"}, Cmd: []string{"serve", "--listen", "0.0.0.0:9870", "--data", "/data"},
			User: "65532:65532", Volumes: map[string]struct{}{"/data": {}}, ExposedPorts: map[string]struct{}{"9870/tcp": {}},
		},
		operatorCommand: {Entrypoint: []string{"/usr/bin/" + operatorCommand}, User: "65532:65532"},
	} {
		bin, err := r.buildCommand(ctx, arch, "", command, dir)
		if err != nil {
			return err
		}
		img, err := r.buildImage(bin, arch, config)
		if err != nil {
			return fmt.Errorf("image of %s: %w", command, err)
		}
		tag, err := name.NewTag("localhost/reckon/" + command + ":" + imageTag(r.version))
		if err != nil {
			return err
		}
		file := filepath.Join(r.out, fmt.Sprintf("%s-%s-linux-%s.image.tar", command, r.version, arch))
		if err := tarball.WriteToFile(file, tag, img); err != nil {
			return err
		}
	}
	return nil
}

// imageTag returns a version as an image tag, which must not contain a plus sign.
func imageTag(version string) string {
	return string(bytes.ReplaceAll([]byte(version), []byte("+"), []byte("-")))
}

func (r *release) buildImage(bin, arch string, config v1.Config) (v1.Image, error) {
	raw, err := os.ReadFile(bin)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	t := tar.NewWriter(&text)
	write := func(h *tar.Header, raw []byte) {
		h.ModTime, h.Format, h.Size = r.time, tar.FormatUSTAR, int64(len(raw))
		_ = t.WriteHeader(h) // into memory; Close returns errors
		_, _ = t.Write(raw)
	}
	write(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil)
	if config.User != "" {
		write(&tar.Header{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 65532, Gid: 65532}, nil)
	}
	write(&tar.Header{Name: "usr/bin/" + filepath.Base(bin), Mode: 0o755}, raw)
	if err := t.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(empty.Image,
		mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "reckon deploy/release"}})
	if err != nil {
		return nil, err
	}
	f, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	f = f.DeepCopy()
	f.OS, f.Architecture, f.Created, f.Config = "linux", arch, v1.Time{Time: r.time}, config
	return mutate.ConfigFile(img, f)
}
