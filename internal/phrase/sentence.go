package phrase

import (
	"strconv"
	"strings"
	"unicode"
)

// Sentence is a message as a template and the values of its placeholders in order. Its text is the
// template with the texts of the values inserted.
type Sentence struct {
	Key      string
	Template string // "it needed {needed} of the {given} of memory it was allocated ({share})"
	Values   []Value
}

// Value is a figure or a name in a sentence. A name was chosen by people and has no number.
type Value struct {
	Name   string // name of the placeholder; a repeated name ends in 2
	Text   string // as displayed
	Number *float64
	Unit   string // of the number: an SI unit, ratio, count or code
	Run    string // run of the value, if it differs from the subject of the sentence
}

// Text is a word made of plain text and values.
type Text []Value

// Number returns a value shown as text.
func Number(v float64, unit, text string) Text { return Text{{Text: text, Number: &v, Unit: unit}} }

// Of marks the values of a text as another run's.
func (t Text) Of(run string) Text {
	out := append(Text(nil), t...)
	for i := range out {
		if out[i].Number != nil {
			out[i].Run = run
		}
	}
	return out
}

// String returns the text for display.
func (t Text) String() string {
	var b strings.Builder
	for i := range t {
		b.WriteString(t[i].Text)
	}
	return b.String()
}

// Join returns strings and texts as one text.
func Join(parts ...any) (out Text) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			if p != "" {
				out = append(out, Value{Text: p})
			}
		case Text:
			out = append(out, p...)
		case Sentence:
			out = append(out, p.text()...)
		}
	}
	return out
}

// String returns the sentence for display.
func (s *Sentence) String() string { return s.text().String() }

// text returns the sentence for use within another one.
func (s *Sentence) text() (out Text) {
	rest, next := s.Template, 0
	for rest != "" {
		before, after, found := strings.Cut(rest, "{")
		if out = append(out, Value{Text: before}); !found {
			break
		}
		_, rest, _ = strings.Cut(after, "}")
		out = append(out, s.Values[next])
		next++
	}
	return out
}

// addWord appends a word to the sentence. Its parts that are no values become parts of the template.
func (s *Sentence) addWord(name string, word Text) {
	for _, v := range word {
		if v.Number == nil && v.Name == "" && !strings.ContainsFunc(v.Text, isValueRune) {
			s.Template += v.Text
			continue
		}
		v.Name = name
		for n := 2; s.hasValue(v.Name); n++ {
			v.Name = name + strconv.Itoa(n)
		}
		s.Template += "{" + v.Name + "}"
		s.Values = append(s.Values, v)
	}
}

// isValueRune reports whether a character makes a word a value: the plain text around values is known from templates only.
func isValueRune(c rune) bool { return c == '{' || c == '}' || unicode.IsDigit(c) }

func (s *Sentence) hasValue(name string) bool {
	for i := range s.Values {
		if s.Values[i].Name == name {
			return true
		}
	}
	return false
}
