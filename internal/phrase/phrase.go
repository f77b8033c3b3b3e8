// Package phrase separates sentences from the code that selects them, so that all of them can be
// proofread in one file.
//
// A book is a text of entries, each "key: sentence". A line that begins with a blank continues the
// sentence before it; empty lines and lines that begin with # are ignored. In a sentence {name} is
// a placeholder for a word that the caller supplies, and {name?one|many} selects one of two forms:
// the first if the word is "1" or begins with "1 ", else the second. A word is text, or a figure
// with its unit and how it is shown.
//
// A [Book] does not change after [Parse] and is safe for concurrent use.
package phrase

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Book is a set of sentences by key.
type Book struct{ sentences func() map[string][]part }

// part is plain text, or a name to fill in.
type part struct {
	text      string
	name      string
	one, many string // forms to select from by the word of the name
	choice    bool
}

// Words are the values of placeholders by name: a string, a [Text], or a [Sentence] as a part of this one.
type Words map[string]any

// Parse parses a book. An error names the line.
func Parse(text string) (*Book, error) {
	sentences, err := parseBook(text)
	return &Book{sentences: func() map[string][]part { return sentences }}, err
}

func parseBook(text string) (map[string][]part, error) {
	sentences := map[string][]part{}
	key, sentence := "", ""
	end := func() error {
		if key == "" {
			return nil
		}
		parts, err := splitSentence(sentence)
		if err != nil {
			return fmt.Errorf("sentence %s: %w", key, err)
		}
		sentences[key] = parts
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(line, "#"):
			continue
		case line != strings.TrimLeft(line, " \t"):
			if key == "" {
				return nil, fmt.Errorf("line %d continues a sentence, but there is none before it", i+1)
			}
			sentence += " " + trimmed
			continue
		}
		if err := end(); err != nil {
			return nil, err
		}
		var ok bool
		if key, sentence, ok = strings.Cut(trimmed, ":"); !ok || strings.ContainsAny(key, " {") {
			return nil, fmt.Errorf("line %d is no \"key: sentence\"", i+1)
		}
		sentence = strings.TrimSpace(sentence)
		if _, twice := sentences[key]; twice {
			return nil, fmt.Errorf("line %d: duplicate key %s", i+1, key)
		}
		sentences[key] = nil
	}
	return sentences, end()
}

// MustParse is like Parse, for texts that are compiled into the program. It parses the text when the book is first
// used, so that it does not delay the start. It panics if the text is invalid.
func MustParse(text string) *Book {
	return &Book{sentences: sync.OnceValue(func() map[string][]part {
		sentences, err := parseBook(text)
		if err != nil {
			panic(err)
		}
		return sentences
	})}
}

func splitSentence(sentence string) (out []part, err error) {
	for rest := sentence; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			return append(out, part{text: rest}), nil
		}
		if open > 0 {
			out = append(out, part{text: rest[:open]})
		}
		shut := strings.IndexByte(rest, '}')
		if shut < open {
			return nil, fmt.Errorf("a { is not closed in %q", rest)
		}
		p := part{name: rest[open+1 : shut]}
		if name, forms, ok := strings.Cut(p.name, "?"); ok {
			p.name, p.choice = name, true
			if p.one, p.many, ok = strings.Cut(forms, "|"); !ok {
				return nil, fmt.Errorf("{%s?%s} needs two forms, such as {%s?was|were}", name, forms, name)
			}
		}
		if p.name == "" {
			return nil, fmt.Errorf("a {} without a name in %q", rest)
		}
		out = append(out, p)
		rest = rest[shut+1:]
	}
	return out, nil
}

// Say returns a sentence as text; see [Book.Sentence].
func (b *Book) Say(key string, words Words) string {
	s := b.Sentence(key, words)
	return s.String()
}

// Sentence returns the sentence with the given key, with its placeholders replaced by words. A placeholder without a
// word stays as its name, and a missing key gives "!key". Tests that search the text thus find both mistakes.
func (b *Book) Sentence(key string, words Words) Sentence {
	out := Sentence{Key: key}
	parts, ok := b.sentences()[key]
	if !ok {
		out.Template = "!" + key
	}
	for _, p := range parts {
		word, given := words[p.name]
		of := Join(word)
		text := of.String()
		switch {
		case p.name == "":
			out.Template += p.text
		case !given:
			out.addWord(p.name, Text{{Name: p.name, Text: "{" + p.name + "}"}})
		case p.choice && (text == "1" || strings.HasPrefix(text, "1 ")):
			out.Template += p.one
		case p.choice:
			out.Template += p.many
		default:
			out.addWord(p.name, of)
		}
	}
	return out
}

// Has reports whether the book has a sentence.
func (b *Book) Has(key string) bool { _, ok := b.sentences()[key]; return ok }

// Keys returns the keys of all sentences, sorted.
func (b *Book) Keys() []string {
	out := make([]string, 0, len(b.sentences()))
	for k := range b.sentences() {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
