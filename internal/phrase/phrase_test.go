package phrase_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"reckon/internal/phrase"
)

func ExampleBook_Say() {
	b := phrase.MustParse(`
# About GPUs.
gpu.idle: its {gpus} {gpus?was|were} busy {share} of the time;
  does it use {gpus?it|them} at all?
`)
	fmt.Println(b.Say("gpu.idle", phrase.Words{"gpus": "1 GPU", "share": "2 %"}))
	fmt.Println(b.Say("gpu.idle", phrase.Words{"gpus": "4 GPUs", "share": "2 %"}))
	// Output:
	// its 1 GPU was busy 2 % of the time; does it use it at all?
	// its 4 GPUs were busy 2 % of the time; does it use them at all?
}

func TestSay(t *testing.T) {
	b := phrase.MustParse("a: plain\nb: {x} of {y}\nc: {n?one|many}\nd: a: colon")
	for _, c := range []struct {
		key   string
		words phrase.Words
		want  string
	}{
		{"a", nil, "plain"},
		{"b", phrase.Words{"x": "1", "y": "2"}, "1 of 2"},
		{"b", phrase.Words{"x": "1"}, "1 of {y}"}, // shows up in a test of any text
		{"c", phrase.Words{"n": "1"}, "one"},
		{"c", phrase.Words{"n": "1 core"}, "one"},
		{"c", phrase.Words{"n": "12 cores"}, "many"},
		{"c", phrase.Words{"n": "1.5 cores"}, "many"},
		{"d", nil, "a: colon"},
		{"none", nil, "!none"},
	} {
		if got := b.Say(c.key, c.words); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.key, c.words, got, c.want)
		}
	}
	if got := b.Keys(); !slices.Equal(got, []string{"a", "b", "c", "d"}) || !b.Has("a") || b.Has("none") {
		t.Errorf("keys %v", got)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"no key":         `line 1 is no "key: sentence"`,
		"  goes on":      "line 1 continues",
		"a: x\na: y":     "line 2: duplicate key a",
		"a: {x":          "is not closed",
		"a: }{":          "is not closed",
		"a: {}":          "without a name",
		"a: {x?was}":     "needs two forms",
		"two words: x":   `line 1 is no`,
		"a: x\nb: {y?|}": "",
	} {
		_, err := phrase.Parse(text)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a: {x?y|z} of {w}\n  on")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := phrase.Parse(text)
		if err != nil {
			return
		}
		for _, k := range b.Keys() {
			b.Say(k, phrase.Words{"x": "1"})
		}
	})
}
