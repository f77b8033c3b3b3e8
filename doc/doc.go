// Package doc embeds the guides in the programs that they describe. Every server shows them below
// /docs, and `reckon docs` in the terminal. Its functions are safe for concurrent use.
package doc

import (
	"bytes"
	"embed"
	"path"
	"strings"
)

//go:embed guides/*.md benchmarks.md metrics.md rules.md figures.md settings.md images
var files embed.FS

// Topic is a document.
type Topic struct {
	Name  string // such as jobs
	Title string // its first heading
}

// Topics lists the documents: the guides by name, and after them the references.
func Topics() (out []Topic) {
	for _, name := range append(guides(), "benchmarks", "figures", "metrics", "rules", "settings") {
		text, _ := Text(name)
		out = append(out, Topic{name, Title(text)})
	}
	return out
}

func guides() (names []string) {
	entries, err := files.ReadDir("guides")
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	return names
}

// Title returns the first heading of a document.
func Title(text string) string {
	title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
	return strings.ReplaceAll(title, "`", "")
}

// Text returns a document in Markdown from its first heading on; false if there is no document with the name.
func Text(name string) (string, bool) {
	for _, dir := range []string{"guides", "."} {
		if text, err := files.ReadFile(path.Join(dir, name+".md")); err == nil {
			return string(text[max(0, bytes.Index(text, []byte("# "))):]), true
		}
	}
	return "", false
}

// Section returns a section of the guides with its subsections by the words of its heading, in any case. It
// prefers the only exact heading, then the only heading with all words. It returns false if there is none or
// more than one.
func Section(words string) (string, bool) {
	want := strings.ToLower(strings.Join(strings.Fields(words), " "))
	for _, is := range []func(title string) bool{
		func(title string) bool { return title == want || title == want+"s" },
		func(title string) bool { return containsAll(title, strings.Fields(want)) },
	} {
		found, sections := "", 0
		for _, name := range guides() {
			text, _ := Text(name)
			level := 0 // of the section
			for line := range strings.Lines(text) {
				if title, n := heading(line); n > 0 && (level == 0 || n <= level) {
					level = 0
					if n > 1 && is(strings.ToLower(title)) {
						level = n
						sections++
					}
				}
				if level > 0 {
					found += line
				}
			}
		}
		if sections == 1 && want != "" {
			return found, true
		}
	}
	return "", false
}

// Image returns a picture of the documents (PNG or SVG); false if there is no picture with the name.
func Image(name string) ([]byte, bool) {
	raw, err := files.ReadFile("images/" + name)
	return raw, err == nil
}

// Match is a line that contains the words of a search.
type Match struct {
	Topic   Topic
	Heading string // above the line
	Line    string
}

// Find returns at most limit lines that contain all words, in any case.
func Find(words string, limit int) (out []Match) {
	want := strings.Fields(strings.ToLower(words))
	if len(want) == 0 {
		return nil
	}
	for _, t := range Topics() {
		text, _ := Text(t.Name)
		section := t.Title
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if title, n := heading(line); n > 0 {
				section = title
			}
			if !containsAll(strings.ToLower(line), want) {
				continue
			}
			if out = append(out, Match{t, section, line}); len(out) == limit {
				return out
			}
		}
	}
	return out
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// heading returns the text and the level of a heading; the level of other lines is 0.
func heading(line string) (title string, level int) {
	title = strings.TrimLeft(line, "#")
	if level = len(line) - len(title); level == 0 || !strings.HasPrefix(title, " ") {
		return "", 0
	}
	return strings.TrimSpace(title), level
}
