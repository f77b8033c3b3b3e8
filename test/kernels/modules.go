package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// wanted are the parts of the kernel that the tests need and that Debian builds as modules, in the order in which they can be loaded. A kernel that
// lacks one has it built in, or no use for it.
var wanted = []string{"crc16", "crc32c_generic", "mbcache", "jbd2", "ext4", "loop", "fuse"}

// moduleFolders are where the package of a kernel has them.
func moduleFolders() []string {
	return []string{"./lib/modules/*/kernel/fs/*", "./lib/modules/*/kernel/lib/*", "./lib/modules/*/kernel/crypto/crc*", "./lib/modules/*/kernel/drivers/block/loop*"}
}

// modules returns the modules for a kernel.
func modules(ctx context.Context, vmlinuz string) (all [][]byte, err error) {
	found := map[string]string{}
	root := filepath.Join(filepath.Dir(vmlinuz), "..", "lib", "modules", strings.TrimPrefix(filepath.Base(vmlinuz), "vmlinuz-"))
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		name, _, _ := strings.Cut(filepath.Base(path), ".ko")
		found[name] = path
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find the modules of the kernel: %w", err)
	}
	for _, name := range wanted {
		path := found[name]
		var b []byte
		switch {
		case strings.HasSuffix(path, ".ko"):
			b, err = os.ReadFile(path)
		case strings.HasSuffix(path, ".ko.xz"):
			b, err = exec.CommandContext(ctx, "xz", "-dc", path).Output()
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read module %s: %w", name, err)
		}
		all = append(all, b)
	}
	return all, nil
}
