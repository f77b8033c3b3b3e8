package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// distFile is the archive of the built pages. Its comment is the digest of their sources. A test without npm can
// therefore check that the committed pages were built from the committed sources.
const distFile = "dist.zip"

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// sourceSum returns the digest of the files in src, the versions of the npm packages, this program and the version of esbuild.
func sourceSum(dir string) (string, error) {
	var names []string
	err := filepath.WalkDir(filepath.Join(dir, "src"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	names = append(names, filepath.Join(dir, "package-lock.json"), filepath.Join(dir, "build", "main.go"),
		filepath.Join(dir, "build", "sum.go"))
	slices.Sort(names)
	var all bytes.Buffer
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		at, err := filepath.Rel(dir, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "%s  %s\n", sha256Hex(content), filepath.ToSlash(at))
	}
	version, err := esbuildVersion(filepath.Join(dir, "..", "..", "go.mod"))
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&all, "esbuild %s\n", version)
	return sha256Hex(all.Bytes()), nil
}

func esbuildVersion(goMod string) (string, error) {
	f, err := os.Open(goMod)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) >= 2 && words[0] == "github.com/evanw/esbuild" {
			return words[1], nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: esbuild is not required", goMod)
}
