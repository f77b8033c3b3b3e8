package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"reckon/doc"
)

const (
	longest      = 25 // words of a sentence
	longSentence = "long"
)

// phrase is one line of language.txt.
type phrase struct {
	name     string
	most     [3]int // in comments, guides and messages
	pattern  *regexp.Regexp
	counts   [3]int
	examples [3][]string
}

// TestLanguage holds how often comments of hand-written Go files, guides, and the messages of programs and pages use the words of
// language.txt. Code in guides, and directives and lists of code in comments, are no text.
func TestLanguage(t *testing.T) {
	phrases := languageList(t)
	words := [3]int{}
	for i, read := range []func(*testing.T, func(where, text string)){commentsOfTree, guidesOfTree, messagesOfTree} {
		read(t, func(where, text string) {
			words[i] += len(strings.Fields(text))
			for _, p := range phrases {
				for range p.in(text) {
					if p.counts[i]++; len(p.examples[i]) < 10 {
						p.examples[i] = append(p.examples[i], where)
					}
				}
			}
		})
	}
	for _, p := range phrases {
		for i, kind := range []string{"comments", "guides", "messages"} {
			t.Logf("%s in %s: %d, %.2f per 1,000 words", p.name, kind, p.counts[i], 1000*float64(p.counts[i])/float64(words[i]))
			if p.counts[i] > p.most[i] {
				t.Errorf("%s in %s: %d, at most %d by internal/archtest/language.txt: write it otherwise\n\t%s", p.name, kind, p.counts[i],
					p.most[i], strings.Join(p.examples[i], "\n\t"))
			}
		}
	}
	t.Logf("%d words in comments, %d in guides, %d in messages", words[0], words[1], words[2])
}

func languageList(t *testing.T) (out []*phrase) {
	t.Helper()
	text, err := os.ReadFile("language.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[0] == "#" {
			continue
		}
		p := &phrase{name: f[0]}
		for i := range p.most {
			if p.most[i], err = strconv.Atoi(f[1+i]); err != nil {
				t.Fatalf("language.txt: %q: %v", line, err)
			}
		}
		if p.name != longSentence {
			p.pattern = regexp.MustCompile("(?im)" + strings.Join(f[4:], " "))
		}
		out = append(out, p)
	}
	return out
}

var sentenceEnd = regexp.MustCompile(`[.!?](?:\s|$)|\n\s*\n`)

// in finds the phrase in a text.
func (p *phrase) in(text string) (found []string) {
	if p.pattern != nil {
		return p.pattern.FindAllString(text, -1)
	}
	for _, s := range sentenceEnd.Split(text, -1) {
		if len(strings.Fields(s)) > longest {
			found = append(found, s)
		}
	}
	return found
}

func commentsOfTree(t *testing.T, do func(where, text string)) {
	t.Helper()
	goFiles(t, filepath.Join("..", ".."), func(path string) error {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			if text := group.Text(); !strings.HasPrefix(text, "Code generated ") {
				do(fmt.Sprintf("%s:%d", path, fset.Position(group.Pos()).Line), text)
			} else {
				break
			}
		}
		return nil
	})
}

// TestMessages prints every message that programs and pages can show, by folder: make messages. It holds that there are some of each kind.
func TestMessages(t *testing.T) {
	folders := map[string]bool{}
	guide := regexp.MustCompile("reckon docs ([a-z][a-z -]*[a-z])")
	messagesOfTree(t, func(where, text string) {
		folders[filepath.Dir(where)] = true
		for _, m := range guide.FindAllStringSubmatch(text, -1) {
			words, _, _ := strings.Cut(m[1], " lists")
			words, _, _ = strings.Cut(words, " describes")
			if _, isGuide := doc.Text(words); !isGuide && where != "cmd/reckon/docs.go" {
				if _, ok := doc.Section(words); !ok {
					t.Errorf("%s: no guide or section %q", where, words)
				}
			}
		}
		if os.Getenv("RECKON_MESSAGES") != "" {
			fmt.Printf("%s\t%s\n", where, strings.ReplaceAll(text, "\n", "\n\t\t"))
		}
	})
	for _, folder := range []string{"cmd/reckon", "cmd/reckon-agent", "answer", "analysis/misuse/rules", "web/ui/src/pages"} {
		if !folders[folder] {
			t.Error("no messages in", folder)
		}
	}
}

var (
	message = regexp.MustCompile(`^[^\w]*\w[\w'’-]*,?( [\w'’%.:-]+,?){2,}`) // three words and more
	noText  = regexp.MustCompile(`(?i)^\s*(?:select|insert|update|delete|create|drop|with|pragma) |^\s*[[{<]|\bprefix \w+:|\) by \(|\bsum by|\{\w+=`)
	webText = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`(?:[^`\\\\]|\\\\.)*`|>[^<>{}]+<")
)

// messagesOfTree calls do with each text of three words and more in the Go code and the pages: literals, help and rules of misuse.
func messagesOfTree(t *testing.T, do func(where, text string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	found := map[string]string{}
	add := func(path, text string) {
		if message.MatchString(text) && !noText.MatchString(text) {
			rel, _ := filepath.Rel(root, path)
			found[rel+"\x00"+text] = text
		}
	}
	goFiles(t, root, func(path string) error {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/test/") || strings.Contains(path, "/lab/simulate/") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				n.Tag = nil
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					text, _ := strconv.Unquote(n.Value) // the parser has read it
					add(path, text)
				}
			}
			return true
		})
		return nil
	})
	rules, _ := filepath.Glob(filepath.Join(root, "analysis", "misuse", "rules", "*.txt")) // the pattern is well formed
	pages, _ := filepath.Glob(filepath.Join(root, "web", "ui", "src", "*", "*.ts*"))
	for _, path := range append(rules, pages...) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(path) == ".txt" {
			for _, paragraph := range strings.Split(string(raw), "\n\n") {
				add(path, paragraph)
			}
			continue
		}
		for _, text := range webText.FindAllString(string(raw), -1) {
			add(path, strings.Trim(text, "\"`<> \n\t"))
		}
	}
	keys := []string{}
	for key := range found {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		where, _, _ := strings.Cut(key, "\x00")
		do(where, found[key])
	}
}

var (
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	tableLine = regexp.MustCompile(`(?m)^\|.*$`)
	codeBlock = regexp.MustCompile("(?m)^(?:    |\t).*$")
)

func guidesOfTree(t *testing.T, do func(where, text string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	guides, err := filepath.Glob(filepath.Join(root, "doc", "guides", "*.md"))
	if err != nil || len(guides) == 0 {
		t.Fatal(guides, err)
	}
	for _, path := range append(guides, filepath.Join(root, "README.md"), filepath.Join(root, "doc", "README.md")) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := codeBlock.ReplaceAllString(string(raw), "")
		text = codeSpan.ReplaceAllString(text, "code")
		cells := tableLine.FindAllString(text, -1)
		text = tableLine.ReplaceAllString(text, "\n")
		n := 1
		for _, paragraph := range append(strings.Split(text, "\n\n"), strings.Split(strings.Join(cells, "|"), "|")...) {
			do(fmt.Sprintf("%s, paragraph %d", path, n), paragraph)
			n++
		}
	}
}

// TestLanguageFinds plants one fault of each rule; each is found.
func TestLanguageFinds(t *testing.T) {
	for name, text := range map[string]string{
		"speech": "The agent tells the server.", "relative": "A run whose end is unknown.", "persons": "nobody reads it", "definition": "left is when it last had a process.",
		longSentence: strings.Repeat("word ", longest+1) + ".",
	} {
		for _, p := range languageList(t) {
			if got := len(p.in(text)); (got > 0) != (p.name == name) {
				t.Errorf("%s in %q: %d", p.name, text, got)
			}
		}
	}
}
