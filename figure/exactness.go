package figure

import "fmt"

// Exactness is the reliability of a figure. The series reckon_figure_exactness has the same values.
type Exactness uint8

// Degrees of exactness.
const (
	Exact     Exactness = iota
	AtLeast             // a lower bound: part of the use could not be observed
	Estimated           // from sampled or indirect readings
	Modelled            // from a fitted model
	AtMost              // an upper bound
)

// exactWords are the names of the degrees in the API.
var exactWords = [...]string{Exact: "exact", AtLeast: "at least", Estimated: "estimated", Modelled: "modelled", AtMost: "at most"}

// ExactnessWords returns the names of all degrees in the API.
func ExactnessWords() []string { return append([]string(nil), exactWords[:]...) }

// String returns the name of the degree in the API.
func (e Exactness) String() string {
	if int(e) >= len(exactWords) {
		return exactWords[Estimated]
	}
	return exactWords[e]
}

// MarshalText returns the name of the degree in the API.
func (e Exactness) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (e *Exactness) UnmarshalText(text []byte) error {
	for i, word := range exactWords {
		if word == string(text) {
			*e = Exactness(i)
			return nil
		}
	}
	return fmt.Errorf("exactness %q is none of %q", text, exactWords)
}

// Worse returns the exactness of a figure that depends on two others, which is the exactness of the less exact one. If one
// of them is an upper bound, the result is an upper bound, because it exceeds the figure by more than lower bounds fall short.
func (e Exactness) Worse(other Exactness) Exactness {
	switch {
	case e == other || other == Exact:
		return e
	case e == Exact:
		return other
	case e == Modelled || other == Modelled:
		return Modelled
	case e == AtMost || other == AtMost:
		return AtMost
	}
	return Estimated
}

// Degrees holds the exactness of those figures of a run that are not exact, by key.
type Degrees map[string]Exactness

// narrowBoundKey is the figure with a narrow upper bound. Combined with a lower bound or an estimate, it is an estimate.
const narrowBoundKey = "io_write_bytes"

// With returns the exactness of a figure that is also e.
func (d Degrees) With(key string, e Exactness) Exactness {
	was := d[key]
	worse := was.Worse(e)
	if key == narrowBoundKey && worse == AtMost && was != e && was != Exact && e != Exact {
		return Estimated
	}
	return worse
}

// Add lowers the exactness of a figure to e unless it is worse already. It allocates the map when needed.
func (d *Degrees) Add(key string, e Exactness) {
	if e == Exact {
		return
	}
	if *d == nil {
		*d = Degrees{}
	}
	(*d)[key] = d.With(key, e)
}
