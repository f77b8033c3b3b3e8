package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// ErrTooLarge is wrapped by the error of a query that was rejected before it ran, because parsing or evaluating it
// would be too expensive.
var ErrTooLarge = errors.New("the query asks for too much at once")

// The time to parse an expression grows with the square of its depth, which cannot exceed its number of operators and
// brackets. Parsing 40,000 of them takes minutes, and parsing 4,000 takes milliseconds. The largest known query of a
// dashboard has fewer than 200.
const (
	maxQueryBytes     = 256 << 10
	maxQueryOperators = 4_000
	// minSteps is the number of steps that any subquery may have, even if it exceeds the sample limit. Prometheus's API
	// allows as many points in a range query.
	minSteps = 11_000
	// stepSamples is the number of samples that one step of a subquery is charged as, because the engine holds several
	// copies. max_over_time(vector(1)[90d:1s]) allocated 130 bytes per step, and the same amount as garbage.
	stepSamples = 20
)

// boundedParser rejects text that would take long to parse.
type boundedParser struct{ parser.Parser }

func (p boundedParser) ParseExpr(input string) (parser.Expr, error) {
	if err := checkParseCost(input); err != nil {
		return nil, err
	}
	return p.Parser.ParseExpr(input)
}

func (p boundedParser) ParseMetricSelector(input string) ([]*labels.Matcher, error) {
	if err := checkParseCost(input); err != nil {
		return nil, err
	}
	return p.Parser.ParseMetricSelector(input)
}

func (p boundedParser) ParseMetricSelectors(inputs []string) ([][]*labels.Matcher, error) {
	for _, in := range inputs {
		if err := checkParseCost(in); err != nil {
			return nil, err
		}
	}
	return p.Parser.ParseMetricSelectors(inputs)
}

// checkParseCost checks the length of a query and its number of operators and brackets outside of strings and comments.
func checkParseCost(input string) error {
	if len(input) > maxQueryBytes {
		return fmt.Errorf("%w: it has %d bytes, at most %d are taken", ErrTooLarge, len(input), maxQueryBytes)
	}
	operators := 0
	for i := 0; i < len(input); i++ {
		switch c := input[i]; c {
		case '"', '\'', '`':
			for i++; i < len(input) && input[i] != c; i++ {
				if input[i] == '\\' && c != '`' {
					i++
				}
			}
		case '#':
			for i < len(input) && input[i] != '\n' {
				i++
			}
		case '(', '[', '{', '+', '-', '*', '/', '%', '^', '=', '!', '<', '>', ',':
			operators++
		case ' ', '\t', '\n', '\r':
			// Operators that are words (and, or, unless, atan2) are surrounded by spaces.
			if i+1 < len(input) && (input[i+1] == 'a' || input[i+1] == 'o' || input[i+1] == 'u' || input[i+1] == 'A' || input[i+1] == 'O' ||
				input[i+1] == 'U') {
				operators++
			}
		}
	}
	if operators > maxQueryOperators {
		return fmt.Errorf("%w: it has %d operators and brackets, at most %d are taken; split it, or record parts of it by a rule",
			ErrTooLarge, operators, maxQueryOperators)
	}
	return nil
}

// NewInstantQuery returns an instant query, or [ErrTooLarge] before any sample is read if the query would exceed the
// memory limit. Other errors are those of [promql.Engine]. A large query waits for other large queries. The caller must
// close the query.
func (e *Engine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query,
	error) {
	m, err := e.checkSubqueries(qs, 0, 0)
	if err != nil {
		return nil, err
	}
	made, err := e.engine().NewInstantQuery(ctx, meteredStore{q, m}, opts, qs, ts)
	if err != nil {
		return nil, err
	}
	return &meteredQuery{Query: made, meter: m}, nil
}

// NewRangeQuery is like [Engine.NewInstantQuery], for a range.
func (e *Engine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time,
	interval time.Duration) (promql.Query, error) {
	m, err := e.checkSubqueries(qs, end.Sub(start), interval)
	if err != nil {
		return nil, err
	}
	made, err := e.engine().NewRangeQuery(ctx, meteredStore{q, m}, opts, qs, start, end, interval)
	if err != nil {
		return nil, err
	}
	return &meteredQuery{Query: made, meter: m}, nil
}

// checkSubqueries returns ErrTooLarge if the subqueries of a query have too many steps. The engine's own limit comes too late, because
// the engine allocates a step before it counts its samples. A subquery over 90 days in steps of 1 ms takes 62 GB.
func (e *Engine) checkSubqueries(qs string, span, step time.Duration) (*meter, error) {
	m := &meter{engine: e}
	expr, err := e.parser.ParseExpr(qs)
	if err != nil {
		if errors.Is(err, ErrTooLarge) {
			return nil, err
		}
		return m, nil //nolint:nilerr // the engine parses it again and words the error as Prometheus does
	}
	bound := float64(max(e.options.MaxSamples/stepSamples, minSteps))
	steps := subquerySteps(expr, span)
	if steps > bound {
		return nil, fmt.Errorf("%w: its subqueries have %.3g steps, at most %.3g are taken; give them a longer step or a shorter range",
			ErrTooLarge, steps, bound)
	}
	_, made := labelBytes(expr)
	if made > maxLabelBytes {
		return nil, fmt.Errorf("%w: its label_replace and label_join make labels of some %.3g bytes, at most %d are taken", ErrTooLarge,
			made, maxLabelBytes)
	}
	m.steps = stepSamples*steps + resultSteps(expr, span, step)
	m.labels = made
	return m, nil
}

const (
	// usualLabel is the assumed length of a label value, bytes.
	usualLabel = 128
	// maxLabelBytes is the maximum size of the labels that label_replace and label_join produce. Nested calls can
	// double the size each time, and the engine itself has no limit.
	maxLabelBytes = 64 << 10
)

// labelBytes estimates the longest label value produced below a node, and the total bytes of labels created there.
func labelBytes(n parser.Node) (longest, total float64) {
	longest = usualLabel
	for c := range parser.ChildrenIter(n) {
		l, m := labelBytes(c)
		longest, total = max(longest, l), total+m
	}
	call, ok := n.(*parser.Call)
	if !ok {
		return longest, total
	}
	var value float64
	switch call.Func.Name {
	case "label_replace":
		text := literalArg(call.Args, 2)
		value = float64(len(text)) + float64(strings.Count(text, "$"))*longest
	case "label_join":
		from := max(len(call.Args)-3, 0)
		value = float64(from) * (longest + float64(len(literalArg(call.Args, 2))))
	}
	return max(longest, value), total + value
}

// literalArg returns the string literal at argument i.
func literalArg(args parser.Expressions, i int) string {
	if i >= len(args) {
		return ""
	}
	e := args[i]
	for {
		inner, ok := e.(*parser.ParenExpr)
		if !ok {
			break
		}
		e = inner.Expr
	}
	s, ok := e.(*parser.StringLiteral)
	if !ok {
		return ""
	}
	return s.Val
}

// subquerySteps returns the total number of steps of all subqueries in an expression that is evaluated over span. The
// engine evaluates each subquery once, over the span of the enclosing expression plus the subquery's range (runSubquery
// in promql/engine.go).
func subquerySteps(n parser.Node, span time.Duration) (steps float64) {
	if s, ok := n.(*parser.SubqueryExpr); ok {
		step := s.Step
		if step <= 0 {
			step = defaultSubqueryStep
		}
		span += s.Range
		steps = float64(span)/float64(step) + 1
	}
	for c := range parser.ChildrenIter(n) {
		steps += subquerySteps(c, span)
	}
	return steps
}

// defaultSubqueryStep is the step of a subquery without an explicit one.
const defaultSubqueryStep = time.Minute
