package sparql

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"reckon/graph"
)

// The numeric types, each promoted to the next.
const (
	integerKind = iota
	decimalKind
	floatKind
	doubleKind
)

// num is a number: exact up to decimal, else a float64.
type num struct {
	kind int
	r    *big.Rat
	f    float64
}

// maxDigits limits the length of exact numbers.
const maxDigits = 200

var integerTypes = map[string]bool{
	"integer": true, "int": true, "long": true, "short": true, "byte": true, "nonNegativeInteger": true, "positiveInteger": true,
	"nonPositiveInteger": true, "negativeInteger": true, "unsignedInt": true, "unsignedLong": true, "unsignedShort": true,
	"unsignedByte": true,
}

func toNumber(t graph.Term) (num, bool) {
	name, ok := strings.CutPrefix(t.Datatype, graph.XSD)
	if t.Kind != graph.Literal || !ok {
		return num{}, false
	}
	s := strings.TrimSpace(t.Value)
	switch {
	case integerTypes[name]:
		if len(s) > maxDigits || strings.Trim(strings.TrimLeft(s, "+-"), "0123456789") != "" {
			return num{}, false
		}
		r, ok := new(big.Rat).SetString(s)
		return num{kind: integerKind, r: r}, ok
	case name == "decimal":
		if len(s) > maxDigits || strings.Trim(s, "+-.0123456789") != "" {
			return num{}, false
		}
		r, ok := new(big.Rat).SetString(s)
		return num{kind: decimalKind, r: r}, ok
	case name == "double" || name == "float":
		kind := doubleKind
		if name == "float" {
			kind = floatKind
		}
		f, ok := parseFloat(s)
		return num{kind: kind, f: f}, ok
	}
	return num{}, false
}

func parseFloat(s string) (float64, bool) {
	switch s {
	case "INF", "+INF":
		return math.Inf(1), true
	case "-INF":
		return math.Inf(-1), true
	case "NaN":
		return math.NaN(), true
	}
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func (n num) isZero() bool {
	if n.r != nil {
		return n.r.Sign() == 0
	}
	return n.f == 0 || math.IsNaN(n.f)
}

func (n num) toFloat() float64 {
	if n.r != nil {
		f, _ := n.r.Float64()
		return f
	}
	return n.f
}

func (n num) toTerm() graph.Term {
	switch n.kind {
	case integerKind:
		return graph.Typed(n.r.Num().String(), graph.XSDInteger)
	case decimalKind:
		return graph.Typed(decimalForm(n.r), graph.XSDDecimal)
	case floatKind:
		return graph.Typed(floatForm(float64(float32(n.f)), 32), graph.XSD+"float")
	}
	return graph.Typed(floatForm(n.f, 64), graph.XSDDouble)
}

// decimalForm has at most 18 digits after the point, as in other stores, and no trailing zeros.
func decimalForm(r *big.Rat) string {
	s := r.FloatString(19)
	s = s[:len(s)-1]
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// floatForm returns the shortest form that parses back to the same value.
func floatForm(f float64, bits int) string {
	switch {
	case math.IsInf(f, 1):
		return "INF"
	case math.IsInf(f, -1):
		return "-INF"
	case math.IsNaN(f):
		return "NaN"
	}
	if bits == 64 {
		return graph.DoubleForm(f)
	}
	return strconv.FormatFloat(f, 'g', -1, 32)
}

func evalArithmetic(op string, l, r graph.Term) (graph.Term, error) {
	a, ok := toNumber(l)
	b, ok2 := toNumber(r)
	if !ok || !ok2 {
		return graph.Term{}, errType
	}
	n, err := calculate(op, a, b)
	if err != nil {
		return graph.Term{}, err
	}
	return n.toTerm(), nil
}

func calculate(op string, a, b num) (num, error) {
	kind := max(a.kind, b.kind)
	if kind >= floatKind {
		x, y := a.toFloat(), b.toFloat()
		switch op {
		case "+":
			x += y
		case "-":
			x -= y
		case "*":
			x *= y
		default:
			x /= y
		}
		return num{kind: kind, f: x}, nil
	}
	out := new(big.Rat)
	switch op {
	case "+":
		out.Add(a.r, b.r)
	case "-":
		out.Sub(a.r, b.r)
	case "*":
		out.Mul(a.r, b.r)
	default:
		if b.r.Sign() == 0 {
			return num{}, typeError("division by zero")
		}
		out.Quo(a.r, b.r)
		kind = decimalKind
	}
	if out.Num().BitLen() > 4*maxDigits {
		return num{}, typeError("a number is too large")
	}
	if out.Denom().BitLen() > 4*maxDigits {
		out.SetString(out.FloatString(30))
	}
	return num{kind: kind, r: out}, nil
}

func (n num) compareNumbers(o num) int {
	if n.kind < floatKind && o.kind < floatKind {
		return n.r.Cmp(o.r)
	}
	a, b := n.toFloat(), o.toFloat()
	if math.IsNaN(a) || math.IsNaN(b) {
		return unordered
	}
	return cmp.Compare(a, b)
}

// unordered means neither less, equal nor greater.
const unordered = 2

func parseTime(t graph.Term) (time.Time, bool) {
	if t.Datatype != graph.XSDDateTime {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if at, err := time.Parse(layout, t.Value); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// compareTerms orders two terms as < does; unordered if one is NaN.
func compareTerms(l, r graph.Term) (int, error) {
	if a, ok := toNumber(l); ok {
		if b, ok := toNumber(r); ok {
			return a.compareNumbers(b), nil
		}
		return 0, errType
	}
	if l.Kind != graph.Literal || r.Kind != graph.Literal {
		return 0, errType
	}
	if a, ok := parseTime(l); ok {
		if b, ok := parseTime(r); ok {
			return a.Compare(b), nil
		}
		return 0, errType
	}
	if l.Type() != r.Type() || l.Language != r.Language || l.Type() != graph.XSDString && l.Type() != graph.XSDBoolean {
		return 0, errType
	}
	return strings.Compare(l.Value, r.Value), nil
}

// equalTerms implements = of SPARQL: by value for supported types, and an error if the result is undefined.
func equalTerms(l, r graph.Term) (bool, error) {
	if l == r {
		return true, nil
	}
	if l.Kind != graph.Literal || r.Kind != graph.Literal {
		return false, nil
	}
	a, aNum := toNumber(l)
	b, bNum := toNumber(r)
	if aNum && bNum {
		return a.compareNumbers(b) == 0, nil
	}
	if x, ok := parseTime(l); ok {
		if y, ok := parseTime(r); ok {
			return x.Equal(y), nil
		}
	}
	if l.Type() == graph.XSDBoolean && r.Type() == graph.XSDBoolean {
		x, _ := effectiveBoolean(l)
		y, _ := effectiveBoolean(r)
		return x == y, nil
	}
	plain := func(t graph.Term) bool {
		return t.Language != "" || t.Datatype == "" || t.Datatype == graph.XSDBoolean || t.Datatype == graph.XSDDateTime
	}
	if (plain(l) || aNum) && (plain(r) || bNum) {
		return false, nil
	}
	return false, errType
}

// compareForOrder implements a total order: unbound, blank nodes, IRIs, literals; numbers and times by value.
func compareForOrder(l, r graph.Term) int {
	if c := cmp.Compare(kindRank(l), kindRank(r)); c != 0 {
		return c
	}
	if l.Kind != graph.Literal {
		return strings.Compare(l.Value, r.Value)
	}
	if c, err := compareTerms(l, r); err == nil && c != unordered {
		return c
	}
	return cmp.Or(strings.Compare(l.Type(), r.Type()), strings.Compare(l.Value, r.Value), strings.Compare(l.Language, r.Language))
}

func kindRank(t graph.Term) int {
	switch t.Kind {
	case graph.Blank:
		return 1
	case graph.IRI:
		return 2
	case graph.Literal:
		return 3
	}
	return 0
}
