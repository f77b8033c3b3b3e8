package sparql

import (
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"reckon/graph"
)

type function struct {
	least, most int // arguments; most -1 is any number
	call        func([]graph.Term) (graph.Term, error)
}

// ownFunctions have another value in each evaluation, or in each row.
var ownFunctions = map[string]struct {
	most int
	call func(e *eval, row []ID, args []graph.Term) (graph.Term, error)
}{
	"NOW":  {0, func(e *eval, _ []ID, _ []graph.Term) (graph.Term, error) { return graph.DateTime(e.start), nil }},
	"RAND": {0, func(*eval, []ID, []graph.Term) (graph.Term, error) { return graph.Double(rand.Float64()), nil }},
	"UUID": {0, func(*eval, []ID, []graph.Term) (graph.Term, error) {
		return graph.Node("urn:uuid:" + uuid.NewString()), nil
	}},
	"STRUUID": {0, func(*eval, []ID, []graph.Term) (graph.Term, error) { return graph.Text(uuid.NewString()), nil }},
	"BNODE":   {1, bnodeFunction},
}

// bnodeFunction implements BNODE: a new node, or one per text within a row.
func bnodeFunction(e *eval, row []ID, a []graph.Term) (graph.Term, error) {
	if len(a) == 0 {
		return e.newBlankNode(), nil
	}
	if !isText(a[0]) || a[0].Language != "" {
		return a[0], errType
	}
	h := fnv.New64a()
	for v, id := range row {
		if e.solution != nil && !e.solution[v] {
			id = 0
		}
		_ = binary.Write(h, binary.LittleEndian, id) // a hash takes all
	}
	return graph.BlankNode(fmt.Sprintf("new%x-%x-%x", e.start.UnixNano(), h.Sum64(), sha256.Sum256([]byte(a[0].Value)))), nil
}

// hashFunction makes a function of the hex digits of a hash.
func hashFunction(sum func(text string) []byte) function {
	return function{1, 1, func(a []graph.Term) (graph.Term, error) {
		if !isText(a[0]) || a[0].Language != "" {
			return a[0], errType
		}
		return graph.Text(hex.EncodeToString(sum(a[0].Value))), nil
	}}
}

// timePartFunction makes a function of a part of an xsd:dateTime, as it is written, without a change of its zone.
func timePartFunction(part func(t time.Time, text string) (graph.Term, error)) function {
	return function{1, 1, func(a []graph.Term) (graph.Term, error) {
		t, ok := parseTime(a[0])
		if !ok {
			return a[0], errType
		}
		return part(t, a[0].Value)
	}}
}

func integerPartFunction(f func(time.Time) int) function {
	return timePartFunction(func(t time.Time, _ string) (graph.Term, error) { return graph.Integer(int64(f(t))), nil })
}

// parseZone returns the zone as it is written, "" if there is none.
func parseZone(text string) string {
	if strings.HasSuffix(text, "Z") {
		return "Z"
	}
	if n := len(text) - 6; n > 0 && (text[n] == '+' || text[n] == '-') {
		return text[n:]
	}
	return ""
}

// zoneDuration writes a zone as xsd:dayTimeDuration: -PT8H.
func zoneDuration(t time.Time, text string) (graph.Term, error) {
	if parseZone(text) == "" {
		return graph.Term{}, errType
	}
	_, seconds := t.Zone()
	sign, out := "", ""
	if seconds < 0 {
		sign, seconds = "-", -seconds
	}
	if h := seconds / 3600; h > 0 {
		out = strconv.Itoa(h) + "H"
	}
	if m := seconds / 60 % 60; m > 0 {
		out += strconv.Itoa(m) + "M"
	}
	return graph.Typed(sign+"PT"+cmp.Or(out, "0S"), graph.XSD+"dayTimeDuration"), nil
}

func secondsPart(t time.Time, _ string) (graph.Term, error) {
	r := big.NewRat(int64(t.Second())*1e9+int64(t.Nanosecond()), 1e9)
	return num{kind: decimalKind, r: r}.toTerm(), nil
}

func kindFunction(kinds ...graph.Kind) func([]graph.Term) (graph.Term, error) {
	return func(a []graph.Term) (graph.Term, error) {
		for _, k := range kinds {
			if a[0].Kind == k {
				return graph.Boolean(true), nil
			}
		}
		return graph.Boolean(false), nil
	}
}

// isText reports whether a term is text, with or without a language.
func isText(t graph.Term) bool { return t.Kind == graph.Literal && t.Datatype == "" }

// textFunction makes a function of strings; the result keeps the language of the first.
func textFunction(f func(a []string) string) func([]graph.Term) (graph.Term, error) {
	return func(a []graph.Term) (graph.Term, error) {
		texts := make([]string, len(a))
		for i, t := range a {
			if !isText(t) {
				return t, errType
			}
			texts[i] = t.Value
		}
		return graph.Term{Kind: graph.Literal, Value: f(texts), Language: a[0].Language}, nil
	}
}

// searchFunction makes a function of two strings that searches the first for the second.
func searchFunction(f func(s, sub string) graph.Term) func([]graph.Term) (graph.Term, error) {
	return func(a []graph.Term) (graph.Term, error) {
		if !isText(a[0]) || !isText(a[1]) || a[1].Language != "" && a[0].Language != a[1].Language {
			return a[0], errType
		}
		return f(a[0].Value, a[1].Value), nil
	}
}

// splitFunction implements STRBEFORE and STRAFTER.
func splitFunction(f func(s, sub string) (string, bool)) func([]graph.Term) (graph.Term, error) {
	return func(a []graph.Term) (graph.Term, error) {
		if !isText(a[0]) || !isText(a[1]) || a[1].Language != "" && a[0].Language != a[1].Language {
			return a[0], errType
		}
		s, ok := f(a[0].Value, a[1].Value)
		if !ok {
			return graph.Text(""), nil
		}
		return graph.Term{Kind: graph.Literal, Value: s, Language: a[0].Language}, nil
	}
}

func roundingFunction(exact func(*big.Rat) *big.Rat, float func(float64) float64) func([]graph.Term) (graph.Term, error) {
	return func(a []graph.Term) (graph.Term, error) {
		n, ok := toNumber(a[0])
		if !ok {
			return a[0], errType
		}
		if n.r != nil {
			return num{kind: n.kind, r: exact(n.r)}.toTerm(), nil
		}
		return num{kind: n.kind, f: float(n.f)}.toTerm(), nil
	}
}

func floorRat(r *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Div(r.Num(), r.Denom())) // Euclidean, and the denominator is positive
}

func ceilRat(r *big.Rat) *big.Rat {
	up := floorRat(new(big.Rat).Neg(r))
	return up.Neg(up)
}

func builtinFunctions() map[string]function {
	half := big.NewRat(1, 2)
	return map[string]function{
		"STR": {1, 1, func(a []graph.Term) (graph.Term, error) {
			if a[0].Kind == graph.Blank {
				return a[0], errType
			}
			return graph.Text(a[0].Value), nil
		}},
		"LANG": {1, 1, func(a []graph.Term) (graph.Term, error) {
			if a[0].Kind != graph.Literal {
				return a[0], errType
			}
			return graph.Text(a[0].Language), nil
		}},
		"LANGMATCHES": {2, 2, func(a []graph.Term) (graph.Term, error) {
			tag, of := strings.ToLower(a[0].Value), strings.ToLower(a[1].Value)
			return graph.Boolean(of == "*" && tag != "" || tag == of || strings.HasPrefix(tag, of+"-")), nil
		}},
		"DATATYPE": {1, 1, func(a []graph.Term) (graph.Term, error) {
			if a[0].Kind != graph.Literal {
				return a[0], errType
			}
			return graph.Node(a[0].Type()), nil
		}},
		"ISIRI": {1, 1, kindFunction(graph.IRI)}, "ISURI": {1, 1, kindFunction(graph.IRI)}, "ISBLANK": {1, 1, kindFunction(graph.Blank)},
		"ISLITERAL": {1, 1, kindFunction(graph.Literal)},
		"ISNUMERIC": {1, 1, func(a []graph.Term) (graph.Term, error) {
			_, ok := toNumber(a[0])
			return graph.Boolean(ok), nil
		}},
		"SAMETERM": {2, 2, func(a []graph.Term) (graph.Term, error) { return graph.Boolean(a[0] == a[1]), nil }},
		"REGEX":    {2, 3, nil}, "REPLACE": {3, 4, nil}, // see pattern
		"STRLEN": {1, 1, func(a []graph.Term) (graph.Term, error) {
			if !isText(a[0]) {
				return a[0], errType
			}
			return graph.Integer(int64(utf8.RuneCountInString(a[0].Value))), nil
		}},
		"SUBSTR": {2, 3, substring},
		"UCASE":  {1, 1, textFunction(func(a []string) string { return strings.ToUpper(a[0]) })},
		"LCASE":  {1, 1, textFunction(func(a []string) string { return strings.ToLower(a[0]) })},
		"CONCAT": {0, -1, func(a []graph.Term) (graph.Term, error) {
			var b strings.Builder
			language := ""
			for i, t := range a {
				if !isText(t) {
					return t, errType
				}
				if i == 0 {
					language = t.Language
				} else if t.Language != language {
					language = ""
				}
				if b.WriteString(t.Value); b.Len() > maxText {
					return t, typeError("the text is too long")
				}
			}
			return graph.Term{Kind: graph.Literal, Value: b.String(), Language: language}, nil
		}},
		"STRSTARTS": {2, 2, searchFunction(func(s, sub string) graph.Term { return graph.Boolean(strings.HasPrefix(s, sub)) })},
		"STRENDS":   {2, 2, searchFunction(func(s, sub string) graph.Term { return graph.Boolean(strings.HasSuffix(s, sub)) })},
		"CONTAINS":  {2, 2, searchFunction(func(s, sub string) graph.Term { return graph.Boolean(strings.Contains(s, sub)) })},
		"STRBEFORE": {2, 2, splitFunction(func(s, sub string) (string, bool) { before, _, ok := strings.Cut(s, sub); return before, ok })},
		"STRAFTER":  {2, 2, splitFunction(func(s, sub string) (string, bool) { _, after, ok := strings.Cut(s, sub); return after, ok })},
		"STRDT": {2, 2, func(a []graph.Term) (graph.Term, error) {
			if !isText(a[0]) || a[0].Language != "" || a[1].Kind != graph.IRI {
				return a[0], errType
			}
			return graph.Typed(a[0].Value, a[1].Value), nil
		}},
		"STRLANG": {2, 2, func(a []graph.Term) (graph.Term, error) {
			if !isText(a[0]) || a[0].Language != "" || !isText(a[1]) || a[1].Value == "" {
				return a[0], errType
			}
			return graph.InLanguage(a[0].Value, a[1].Value), nil
		}},
		"ENCODE_FOR_URI": {1, 1, func(a []graph.Term) (graph.Term, error) {
			if !isText(a[0]) {
				return a[0], errType
			}
			return graph.Text(graph.EscapeIRI(a[0].Value)), nil
		}},
		"MD5":      hashFunction(func(s string) []byte { sum := md5.Sum([]byte(s)); return sum[:] }),
		"SHA1":     hashFunction(func(s string) []byte { sum := sha1.Sum([]byte(s)); return sum[:] }),
		"SHA256":   hashFunction(func(s string) []byte { sum := sha256.Sum256([]byte(s)); return sum[:] }),
		"SHA384":   hashFunction(func(s string) []byte { sum := sha512.Sum384([]byte(s)); return sum[:] }),
		"SHA512":   hashFunction(func(s string) []byte { sum := sha512.Sum512([]byte(s)); return sum[:] }),
		"YEAR":     integerPartFunction(time.Time.Year),
		"MONTH":    integerPartFunction(func(t time.Time) int { return int(t.Month()) }),
		"DAY":      integerPartFunction(time.Time.Day),
		"HOURS":    integerPartFunction(time.Time.Hour),
		"MINUTES":  integerPartFunction(time.Time.Minute),
		"SECONDS":  timePartFunction(secondsPart),
		"TIMEZONE": timePartFunction(zoneDuration),
		"TZ":       timePartFunction(func(_ time.Time, text string) (graph.Term, error) { return graph.Text(parseZone(text)), nil }),
		"ABS":      {1, 1, roundingFunction(func(r *big.Rat) *big.Rat { return new(big.Rat).Abs(r) }, math.Abs)},
		"CEIL":     {1, 1, roundingFunction(ceilRat, math.Ceil)},
		"FLOOR":    {1, 1, roundingFunction(floorRat, math.Floor)},
		"ROUND": {
			1, 1, roundingFunction(func(r *big.Rat) *big.Rat { return floorRat(new(big.Rat).Add(r, half)) },
				func(f float64) float64 { return math.Floor(f + 0.5) })},
	}
}

// iriFunction makes IRI() and URI() for the base of a query.
func iriFunction(base string) func([]graph.Term) (graph.Term, error) {
	return func(a []graph.Term) (graph.Term, error) {
		if a[0].Kind == graph.IRI {
			return a[0], nil
		}
		if !isText(a[0]) || a[0].Language != "" {
			return a[0], errType
		}
		iri, err := graph.Resolve(base, a[0].Value)
		if err != nil || graph.CheckIRI(iri) != nil {
			return a[0], errType
		}
		return graph.Node(iri), nil
	}
}

func substring(a []graph.Term) (graph.Term, error) {
	from, ok := toNumber(a[1])
	if !isText(a[0]) || !ok {
		return a[0], errType
	}
	start := math.Floor(from.toFloat() + 0.5)
	stop := math.Inf(1)
	if len(a) > 2 {
		length, ok := toNumber(a[2])
		if !ok {
			return a[0], errType
		}
		stop = start + math.Floor(length.toFloat()+0.5)
	}
	var b strings.Builder
	at := 0.0
	for _, r := range a[0].Value {
		if at++; at >= start && at < stop {
			b.WriteRune(r)
		}
	}
	return graph.Term{Kind: graph.Literal, Value: b.String(), Language: a[0].Language}, nil
}
