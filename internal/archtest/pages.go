package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// listPages returns the Markdown files at the root and in doc/, relative to the module.
func (t *Tree) listPages() []string {
	pages, _ := filepath.Glob(filepath.Join(t.Dir, "*.md")) // the pattern is well formed
	_ = filepath.WalkDir(filepath.Join(t.Dir, "doc"), func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return nil // an unreadable file has no links
	})
	for i, page := range pages {
		rel, _ := filepath.Rel(t.Dir, page) // page is below it
		pages[i] = filepath.ToSlash(rel)
	}
	return pages
}

// eachMatch calls do for each match of pattern in a page, with its line number.
func (t *Tree) eachMatch(page string, pattern *regexp.Regexp, do func(line int, groups []string)) {
	text, err := os.ReadFile(filepath.Join(t.Dir, page))
	if err != nil {
		return
	}
	for i, line := range strings.Split(string(text), "\n") {
		for _, m := range pattern.FindAllStringSubmatch(line, -1) {
			do(i+1, m)
		}
	}
}

// findBrokenLinks checks relative links.
func findBrokenLinks(t *Tree) (out []Violation) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`) // no colon: not an address
	for _, page := range t.listPages() {
		t.eachMatch(page, link, func(line int, m []string) {
			if _, err := os.Stat(filepath.Join(t.Dir, filepath.Dir(page), m[1])); err != nil {
				out = append(out, Violation{page, line, "link to " + m[1]})
			}
		})
	}
	return out
}

// findBrokenPaths reports code spans in documents that name a missing path of this module. A code span is a path if it
// begins with a root folder or ends in a slash. Decisions are exempt, because they describe the past.
func findBrokenPaths(t *Tree) (out []Violation) {
	path := regexp.MustCompile("`([A-Za-z0-9_-]+/[A-Za-z0-9_./-]*)`")
	symbol := regexp.MustCompile(`\.[A-Z]\w*$`) // package.Name
	placeholder := regexp.MustCompile(`^[A-Z]+$`)
	for _, page := range t.listPages() {
		if isBelow(page, "doc/decisions", "CHANGELOG.md") {
			continue
		}
		t.eachMatch(page, path, func(line int, m []string) {
			parts := strings.Split(symbol.ReplaceAllString(m[1], ""), "/")
			if _, err := os.Stat(filepath.Join(t.Dir, parts[0])); err != nil &&
				(len(parts) > 2 || parts[1] != "" || page != "ARCHITECTURE.md") {
				return
			}
			if i := slices.IndexFunc(parts, placeholder.MatchString); i >= 0 {
				parts = parts[:i]
			}
			if _, err := os.Stat(filepath.Join(append([]string{t.Dir}, parts...)...)); err != nil {
				out = append(out, Violation{page, line, "path " + m[1]})
			}
		})
	}
	return out
}

// findUnlinkedGuides finds guides without a link in doc/README.md.
func findUnlinkedGuides(t *Tree) (out []Violation) {
	list, _ := os.ReadFile(filepath.Join(t.Dir, "doc", "README.md")) // if it does not exist, nothing is linked
	for _, page := range t.listPages() {
		if isBelow(page, "doc/guides") && !strings.Contains(string(list), fmt.Sprintf("](%s)", strings.TrimPrefix(page, "doc/"))) {
			out = append(out, Violation{File: page, What: "not linked in doc/README.md"})
		}
	}
	return out
}
