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

// ErrTooLarge is what errors.Is finds when a query is refused before it runs, because of
// what it would cost to parse or to evaluate.
var ErrTooLarge = errors.New("the query asks for too much at once")

// The time of the parser grows with the square of the depth of the expression, and a
// single expression can be as deep as it has operators and brackets: 40,000 of them
// take minutes, 4,000 some milliseconds. The largest query of the dashboards that we
// know has below 200.
const (
	maxQueryBytes     = 256 << 10
	maxQueryOperators = 4_000
	// minSteps may be asked of a subquery whatever the bound on samples is: it is the
	// number of points that Prometheus's API allows a range query.
	minSteps = 11_000
	// stepSamples is how many samples a step of a subquery counts as. The engine holds several copies
	// of each: max_over_time(vector(1)[90d:1s]) took 130 bytes a step, and as much garbage.
	stepSamples = 20
)

// boundedParser refuses text that would take long to parse.
type boundedParser struct{ parser.Parser }

func (p boundedParser) ParseExpr(input string) (parser.Expr, error) {
	if err := parseable(input); err != nil {
		return nil, err
	}
	return p.Parser.ParseExpr(input)
}

func (p boundedParser) ParseMetricSelector(input string) ([]*labels.Matcher, error) {
	if err := parseable(input); err != nil {
		return nil, err
	}
	return p.Parser.ParseMetricSelector(input)
}

func (p boundedParser) ParseMetricSelectors(inputs []string) ([][]*labels.Matcher, error) {
	for _, in := range inputs {
		if err := parseable(in); err != nil {
			return nil, err
		}
	}
	return p.Parser.ParseMetricSelectors(inputs)
}

// parseable bounds the length of a query and its operators and brackets; those within
// strings and comments do not count.
func parseable(input string) error {
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
			// The operators that are words (and, or, unless, atan2) stand between spaces.
			if i+1 < len(input) && (input[i+1] == 'a' || input[i+1] == 'o' || input[i+1] == 'u' || input[i+1] == 'A' || input[i+1] == 'O' || input[i+1] == 'U') {
				operators++
			}
		}
	}
	if operators > maxQueryOperators {
		return fmt.Errorf("%w: it has %d operators and brackets, at most %d are taken; split it, or record parts of it by a rule", ErrTooLarge, operators, maxQueryOperators)
	}
	return nil
}

// NewInstantQuery refuses what would take more memory than the bound before a sample is
// read; else it is that of [promql.Engine], which waits where it is large and others are. It must be closed.
func (e *Engine) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	m, err := e.measure(qs, 0, 0)
	if err != nil {
		return nil, err
	}
	made, err := e.Engine.NewInstantQuery(ctx, meteredStore{q, m}, opts, qs, ts)
	if err != nil {
		return nil, err
	}
	return &meteredQuery{made, m}, nil
}

// NewRangeQuery is as [Engine.NewInstantQuery], for a range.
func (e *Engine) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	m, err := e.measure(qs, end.Sub(start), interval)
	if err != nil {
		return nil, err
	}
	made, err := e.Engine.NewRangeQuery(ctx, meteredStore{q, m}, opts, qs, start, end, interval)
	if err != nil {
		return nil, err
	}
	return &meteredQuery{made, m}, nil
}

// measure bounds the steps of the subqueries of a query. The engine allocates for
// each step before it counts a sample, so its own bound comes too late: one step of 1 ms
// over 90 days takes 62 GB.
func (e *Engine) measure(qs string, span, step time.Duration) (*meter, error) {
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
		return nil, fmt.Errorf("%w: its subqueries have %.3g steps, at most %.3g are taken; give them a longer step or a shorter range", ErrTooLarge, steps, bound)
	}
	_, made := labelBytes(expr)
	if made > maxLabelBytes {
		return nil, fmt.Errorf("%w: its label_replace and label_join make labels of some %.3g bytes, at most %d are taken", ErrTooLarge, made, maxLabelBytes)
	}
	m.steps = stepSamples*steps + resultSteps(expr, span, step)
	m.labels = made
	return m, nil
}

const (
	// usualLabel is how many bytes the value of a label is taken to have.
	usualLabel = 128
	// maxLabelBytes bounds what label_replace and label_join add to one series: each of them can double what the one within it made, and
	// the engine counts no labels.
	maxLabelBytes = 64 << 10
)

// labelBytes estimates the longest value of a label below a node, and how many bytes of labels are made there in all.
func labelBytes(n parser.Node) (longest, made float64) {
	longest = usualLabel
	for c := range parser.ChildrenIter(n) {
		l, m := labelBytes(c)
		longest, made = max(longest, l), made+m
	}
	call, ok := n.(*parser.Call)
	if !ok {
		return longest, made
	}
	var value float64
	switch call.Func.Name {
	case "label_replace":
		text := literal(call.Args, 2)
		value = float64(len(text)) + float64(strings.Count(text, "$"))*longest
	case "label_join":
		from := max(len(call.Args)-3, 0)
		value = float64(from) * (longest + float64(len(literal(call.Args, 2))))
	}
	return max(longest, value), made + value
}

// literal is the text that is an argument.
func literal(args parser.Expressions, i int) string {
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

// subquerySteps adds up the steps of all subqueries of an expression that is evaluated
// over span. The engine evaluates a subquery once, over the span of what is around it
// and its own range together (runSubquery in promql/engine.go).
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

// defaultSubqueryStep is the step of a subquery that gives none.
const defaultSubqueryStep = time.Minute
