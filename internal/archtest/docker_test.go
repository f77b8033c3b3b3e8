package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDockerfiles checks that images copy everything that `go mod download` needs before it
// runs: the replacement modules are folders of this repository.
func TestDockerfiles(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		if _, dir, ok := strings.Cut(line, "=> ./"); ok {
			folders = append(folders, strings.TrimSpace(dir))
		}
	}
	files, _ := filepath.Glob(filepath.Join(root, "deploy/*/Dockerfile*"))
	if len(folders) == 0 || len(files) == 0 {
		t.Fatalf("%d modules are replaced by folders, %d Dockerfiles: there is nothing to hold", len(folders), len(files))
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range notCopied(string(text), folders) {
			t.Errorf("%s: `go mod download` needs %s: copy it before", f, dir)
		}
	}
}

// notCopied returns the folders that no COPY before `go mod download` includes.
func notCopied(text string, folders []string) (missing []string) {
	before, _, ok := strings.Cut(text, "RUN go mod download")
	if !ok {
		return nil
	}
	var copied []string
	for line := range strings.Lines(before) {
		if words := strings.Fields(line); len(words) > 2 && words[0] == "COPY" {
			copied = append(copied, words[1:len(words)-1]...)
		}
	}
next:
	for _, dir := range folders {
		for _, c := range copied {
			if c == "." || dir == c || strings.HasPrefix(dir, c+"/") {
				continue next
			}
		}
		missing = append(missing, dir)
	}
	return missing
}

func TestNotCopied(t *testing.T) {
	folders := []string{"internal/stub/a", "internal/stub/b"}
	for text, want := range map[string]int{
		"COPY go.mod go.sum ./\nRUN go mod download\nCOPY . .\n":                                         2,
		"COPY go.mod go.sum ./\nCOPY internal/stub internal/stub\nRUN go mod download\nCOPY . .\n":       0,
		"COPY go.mod go.sum ./\nCOPY internal/stub/a internal/stub/a\nRUN go mod download\nCOPY . .\n":   1,
		"COPY go.mod go.sum ./\nCOPY internal/stub/bb internal/stub/bb\nRUN go mod download\nCOPY . .\n": 2,
		"COPY . .\nRUN go build ./...\n": 0,
	} {
		if got := notCopied(text, folders); len(got) != want {
			t.Errorf("%q: %v, want %d", text, got, want)
		}
	}
}
