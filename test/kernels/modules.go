package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// wantedModules are the modules of Debian kernels that the tests need. If a kernel does not have one as a module, it is built
// in or not needed. Modules that these depend on are found automatically.
var wantedModules = []string{"crc16", "crc32c_generic", "ext4", "loop", "fuse", "nfsv3", "nfsv4", "nfsd", "unix_diag", "tcp_diag"}

// moduleFolders returns the places where the package of a kernel has them.
func moduleFolders() []string {
	return []string{"./lib/modules/*/kernel/fs/*", "./lib/modules/*/kernel/lib/*", "./lib/modules/*/kernel/crypto/crc*",
		"./lib/modules/*/kernel/drivers/block/loop*",
		"./lib/modules/*/kernel/net/sunrpc/*", "./lib/modules/*/kernel/net/dns_resolver/*",
		"./lib/modules/*/kernel/net/unix/*", "./lib/modules/*/kernel/net/ipv4/*_diag*"}
}

// readModules returns the modules for a kernel, in a loadable order.
func readModules(ctx context.Context, vmlinuz string) (all [][]byte, err error) {
	found := map[string]string{}
	root := filepath.Join(filepath.Dir(vmlinuz), "..", "lib", "modules", strings.TrimPrefix(filepath.Base(vmlinuz), "vmlinuz-"))
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		name, _, _ := strings.Cut(filepath.Base(path), ".ko")
		found[strings.ReplaceAll(name, "-", "_")] = path
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find the modules of the kernel: %w", err)
	}
	var add func(name string) error
	add = func(name string) error {
		path := found[name]
		delete(found, name)
		if !strings.Contains(path, ".ko") {
			return nil
		}
		b, err := readModule(ctx, path)
		if err != nil {
			return fmt.Errorf("read module %s: %w", name, err)
		}
		needs, err := moduleDeps(b)
		if err != nil {
			return fmt.Errorf("read module %s: %w", name, err)
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		all = append(all, b)
		return nil
	}
	for _, name := range wantedModules {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readModule(ctx context.Context, path string) ([]byte, error) {
	if strings.HasSuffix(path, ".xz") {
		return exec.CommandContext(ctx, "xz", "-dc", path).Output()
	}
	return os.ReadFile(path)
}

// moduleDeps returns the dependencies that a module declares (modinfo).
func moduleDeps(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, nil
	}
	text, err := s.Data()
	if err != nil {
		return nil, err
	}
	for field := range bytes.SplitSeq(text, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok {
			return slices.DeleteFunc(strings.Split(strings.ReplaceAll(list, "-", "_"), ","), func(n string) bool { return n == "" }), nil
		}
	}
	return nil, nil
}
