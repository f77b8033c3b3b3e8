// Package golden holds that nothing is lost on the way from an earlier program to this one.
//
// script/golden made testdata/golden.tar.gz with the program of another commit: the data
// directory of a server with a simulated site, imports, findings, mutes, users and tokens,
// its catalogue in PostgreSQL, a backup, an import that was cut off, and the state of an
// agent. testdata/answers is what that program answered. The tests open all of it with the
// program of today, through its commands alone, and compare rows and figures: what was
// added since is no difference, a lost or changed figure is one, unless intended_test.go
// lists it with its reason.
package golden

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	programs = flag.String("programs", "", "directory with other programs than those of today")
	record   = flag.Bool("record", false, "write what the programs answer to testdata/answers")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if code == 0 && *programs == "" && flag.Lookup("test.run").Value.String() == "" {
		for _, at := range unused() {
			fmt.Fprintf(os.Stderr, "intended_test.go lists a difference at %q, and there is none: remove it\n", at)
			code = 1
		}
	}
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// built is a directory that TestMain removes.
var built string

// build compiles the programs of today once, or finds the programs of -programs.
var build = sync.OnceValues(func() (string, error) {
	if *programs != "" {
		return filepath.Abs(*programs)
	}
	if err := lookAtSources(); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "reckon-golden-")
	if err != nil {
		return "", err
	}
	built = dir
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "reckon/cmd/reckon", "reckon/cmd/reckon-agent")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, nil
})

// lookAtSources lists every folder of the module. `go test` keeps the result of a test as long
// as the test and the files and folders that it looked at are the same, and does not see what
// the build above reads.
func lookAtSources() error {
	return filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && path != "../.." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules" || e.Name() == "bin") {
			return filepath.SkipDir
		}
		return err
	})
}

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// manifest reports when the data were made.
type manifest struct {
	Commit string `json:"commit"`
	From   string `json:"from"`   // the simulated site begins
	To     string `json:"to"`     // and ends
	Looked string `json:"looked"` // the last look for findings
}

// unpack writes golden.tar.gz into a new directory.
func unpack(t *testing.T) (dir string, m manifest) {
	t.Helper()
	f, err := os.Open("testdata/golden.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = extract(root, h, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return dir, m
}

func extract(root *os.Root, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		if filepath.Clean(h.Name) == "." {
			return nil
		}
		return root.Mkdir(filepath.Clean(h.Name), 0o755)
	case tar.TypeReg:
		out, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		return errors.Join(err, out.Close())
	}
	return fmt.Errorf("%s is neither a file nor a directory", h.Name)
}
