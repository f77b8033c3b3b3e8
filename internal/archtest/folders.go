package archtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits that keep the output of `ls` a usable overview: no folder holds most of the code.
const (
	maxFoundations = 15 // folders of internal/ without stub, which holds modules of their own
	largestShare   = 20 // per cent of the code in one folder at the root
)

// countLines counts the lines of Go in each root folder, without tests, test data and generated files. foundations lists
// the folders of internal/.
func countLines(root string) (lines map[string]int, foundations []string, err error) {
	lines = map[string]int{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		top, rest, below := strings.Cut(filepath.ToSlash(rel), "/")
		name := d.Name()
		switch {
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() && top == "internal" && below && rest != "stub" && !strings.Contains(rest, "/"):
			foundations = append(foundations, rest)
		case d.IsDir() || !below || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
		default:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if !bytes.Contains(text, []byte("\n// Code generated ")) && !bytes.HasPrefix(text, []byte("// Code generated ")) {
				lines[top] += bytes.Count(text, []byte("\n"))
			}
		}
		return nil
	})
	return lines, foundations, err
}

// crowdedFolders returns the folders that exceed a limit.
func crowdedFolders(lines map[string]int, foundations []string) (out []string) {
	if len(foundations) > maxFoundations {
		out = append(out, fmt.Sprintf("internal/ has %d folders, of %d at most: move what one stage alone uses to that stage",
			len(foundations), maxFoundations))
	}
	all := 0
	for _, n := range lines {
		all += n
	}
	for folder, n := range lines {
		if n*100 > all*largestShare {
			out = append(out, fmt.Sprintf("%s/ holds %d of %d lines, more than %d %%: it is two rooms", folder, n, all, largestShare))
		}
	}
	slices.Sort(out)
	return out
}
