package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes deb and rpm packages of both commands. Their binaries use NVIDIA's library if it
// is installed, which requires the distribution's C library; those in the archive are static.
func (r *release) packages(ctx context.Context, arch string) error {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := r.writeCompletions(ctx, dir); err != nil {
		return err
	}
	for _, c := range commands {
		if _, err := r.buildCommand(ctx, arch, "nvml", c, dir); err != nil {
			return err
		}
	}
	if err := os.Chdir(r.root); err != nil { // the descriptions name files from there
		return err
	}
	vars := map[string]string{"ARCH": arch, "VERSION": r.version, "BIN": dir}
	for _, file := range []string{"deploy/packages/agent.yaml", "deploy/packages/server.yaml"} {
		for _, format := range []string{"deb", "rpm"} {
			if err := r.write(file, format, vars); err != nil {
				return fmt.Errorf("%s as %s: %w", file, format, err)
			}
		}
	}
	return nil
}

func (r *release) write(file, format string, vars map[string]string) (err error) {
	config, err := nfpm.ParseFileWithEnvMapping(file, func(name string) string { return vars[name] })
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	info.MTime = r.time
	for _, c := range info.Contents {
		c.FileInfo.MTime = r.time
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return packager.Package(info, f)
}
