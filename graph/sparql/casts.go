package sparql

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"reckon/graph"
)

// castFunctions are the constructor functions of XML Schema, by local name.
var castFunctions = map[string]func([]graph.Term) (graph.Term, error){
	"string": func(a []graph.Term) (graph.Term, error) {
		if a[0].Kind == graph.Blank {
			return a[0], errType
		}
		if n, ok := toNumber(a[0]); ok {
			return graph.Text(n.castText()), nil
		}
		if b, err := effectiveBoolean(a[0]); err == nil && a[0].Datatype == graph.XSDBoolean {
			return graph.Text(strconv.FormatBool(b)), nil
		}
		return graph.Text(a[0].Value), nil
	},
	"boolean": func(a []graph.Term) (graph.Term, error) {
		switch {
		case a[0].Datatype != "":
			b, err := effectiveBoolean(a[0])
			return graph.Boolean(b), err
		case a[0].Value == "true" || a[0].Value == "1":
			return graph.Boolean(true), nil
		case a[0].Value == "false" || a[0].Value == "0":
			return graph.Boolean(false), nil
		}
		return a[0], errType
	},
	"integer": castNumber(integerKind), "decimal": castNumber(decimalKind), "float": castNumber(floatKind),
	"double": castNumber(doubleKind),
	"dateTime": func(a []graph.Term) (graph.Term, error) {
		t := graph.Typed(a[0].Value, graph.XSDDateTime)
		if _, ok := parseTime(t); !ok || a[0].Kind != graph.Literal {
			return a[0], errType
		}
		return t, nil
	},
}

// castText returns the number as xsd:string: a float of usual size as a decimal (XPath functions, casting to xs:string).
func (n num) castText() string {
	if n.r == nil && !math.IsInf(n.f, 0) && (n.f == 0 || math.Abs(n.f) >= 1e-6 && math.Abs(n.f) < 1e6) {
		bits := 64
		if n.kind == floatKind {
			bits = 32
		}
		return strconv.FormatFloat(n.f, 'f', -1, bits)
	}
	return n.toTerm().Value
}

var castTypes = []string{graph.XSDInteger, graph.XSDDecimal, graph.XSD + "float", graph.XSDDouble}

func castNumber(kind int) func([]graph.Term) (graph.Term, error) {
	return func(a []graph.Term) (graph.Term, error) {
		t := a[0]
		if t.Kind != graph.Literal || t.Language != "" {
			return t, errType
		}
		if t.Datatype == "" {
			n, ok := toNumber(graph.Typed(strings.TrimSpace(t.Value), castTypes[kind]))
			if !ok {
				return t, errType
			}
			return n.toTerm(), nil
		}
		n, ok := toNumber(t)
		if t.Type() == graph.XSDBoolean {
			b, _ := effectiveBoolean(t)
			n, ok = num{kind: integerKind, r: new(big.Rat)}, true
			if b {
				n.r.SetInt64(1)
			}
		}
		if !ok {
			return t, errType
		}
		if kind >= floatKind {
			return num{kind: kind, f: n.toFloat()}.toTerm(), nil
		}
		if n.r == nil {
			if math.IsNaN(n.f) || math.IsInf(n.f, 0) {
				return t, errType
			}
			n.r = new(big.Rat).SetFloat64(n.f)
		}
		if kind == integerKind {
			n.r = new(big.Rat).SetInt(new(big.Int).Quo(n.r.Num(), n.r.Denom()))
		}
		return num{kind: kind, r: n.r}.toTerm(), nil
	}
}

// compileRegexp compiles an expression once for a query. The syntax is RE2's, without back references.
func (e *eval) compileRegexp(text, flags string) (*regexp.Regexp, error) {
	key := flags + "/" + text
	if re, ok := e.regexps[key]; ok {
		return re, nil
	}
	if len(text) > 10_000 || strings.Trim(flags, "ismxq") != "" {
		return nil, typeError("a regular expression is too long or has an unknown flag")
	}
	if strings.Contains(flags, "q") {
		text = regexp.QuoteMeta(text)
	}
	if strings.Contains(flags, "x") {
		text = strings.NewReplacer(" ", "", "\t", "", "\n", "", "\r", "").Replace(text)
	}
	if mode := strings.NewReplacer("q", "", "x", "").Replace(flags); mode != "" {
		text = "(?" + mode + ")" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, typeError("a regular expression: " + err.Error())
	}
	e.regexps[key] = re
	return re, nil
}
