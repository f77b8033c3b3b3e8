package figure

import "fmt"

// Exactness says how far a figure can be trusted. The numbers of the first four are those of
// the series reckon_figure_exactness.
type Exactness uint8

// The degrees of exactness.
const (
	Exact     Exactness = iota
	AtLeast             // a lower bound: something could not be seen
	Estimated           // from sampled or indirect readings
	Modelled            // from a fitted model
	AtMost              // an upper bound
)

// exactWords are the degrees in the words of the API.
var exactWords = [...]string{Exact: "exact", AtLeast: "at least", Estimated: "estimated", Modelled: "modelled", AtMost: "at most"}

// ExactnessWords are all degrees in the words of the API.
func ExactnessWords() []string { return append([]string(nil), exactWords[:]...) }

// String is the degree in the words of the API.
func (e Exactness) String() string {
	if int(e) >= len(exactWords) {
		return exactWords[Estimated]
	}
	return exactWords[e]
}

// MarshalText writes the degree in the words of the API.
func (e Exactness) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (e *Exactness) UnmarshalText(text []byte) error {
	for i, word := range exactWords {
		if word == string(text) {
			*e = Exactness(i)
			return nil
		}
	}
	return fmt.Errorf("exactness %q is none of %q", text, exactWords)
}

// Worse is the degree of a figure that rests on two: the less exact one, and an estimate of
// what is bounded from both sides.
func (e Exactness) Worse(o Exactness) Exactness {
	switch {
	case e == o || o == Exact:
		return e
	case e == Exact:
		return o
	case e == Modelled || o == Modelled:
		return Modelled
	}
	return Estimated
}

// Degrees are the figures of a run that are not exact, by key.
type Degrees map[string]Exactness

// Add makes a figure no more exact than a degree. It makes the map when it has to.
func (d *Degrees) Add(key string, e Exactness) {
	if e == Exact {
		return
	}
	if *d == nil {
		*d = Degrees{}
	}
	(*d)[key] = (*d)[key].Worse(e)
}
