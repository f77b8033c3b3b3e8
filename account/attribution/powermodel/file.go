package powermodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// The reasons why a model cannot be used. They are wrapped with details.
var (
	ErrNewer    = errors.New("model file is newer than this program")
	ErrMachine  = errors.New("model is of another machine")
	ErrFeature  = errors.New("feature unknown here")
	ErrNotModel = errors.New("not a power model file")
)

// maxFileSize is the maximum size of a file in bytes: a thousand trees need about 2 MB.
const maxFileSize = 16 << 20

// Read reads and validates a model file. Unknown fields, non-finite numbers, indexes out of range
// and newer versions are errors; each error gives the position.
func Read(r io.Reader) (*Model, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read power model: %w", err)
	}
	if len(b) > maxFileSize {
		return nil, fmt.Errorf("power model is larger than %d bytes: %w", maxFileSize, ErrNotModel)
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("power model: %w: %w", ErrNotModel, explainJSON(b, err))
	}
	if head.Format != Format {
		return nil, fmt.Errorf("power model: format is %q, want %q: %w", head.Format, Format, ErrNotModel)
	}
	if head.Version > Version {
		return nil, fmt.Errorf("power model: version %d, this program reads up to %d; update reckon or fit the model again: %w",
			head.Version, Version, ErrNewer)
	}
	m := new(Model)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("power model: %w: %w", ErrNotModel, err)
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return m, nil
}

// explainJSON adds the likely cause to the error of a file with NaN or infinity, which JSON cannot represent.
func explainJSON(b []byte, err error) error {
	var syn *json.SyntaxError
	if !errors.As(err, &syn) {
		return err
	}
	from := max(0, int(syn.Offset)-1)
	rest := b[min(from, len(b)):]
	for _, w := range []string{"NaN", "Inf", "-Inf", "+Inf", "Infinity"} {
		if bytes.HasPrefix(rest, []byte(w)) {
			return fmt.Errorf("byte %d: %s is not a number a model may hold: %w", syn.Offset, w, err)
		}
	}
	return fmt.Errorf("byte %d: %w", syn.Offset, err)
}

// Write checks m and writes it as JSON. Equal models produce equal bytes.
func (m *Model) Write(w io.Writer) error {
	if err := m.Check(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fmt.Errorf("write power model: %w", err)
	}
	if _, err := w.Write(append(joinNumbers(b), '\n')); err != nil {
		return fmt.Errorf("write power model: %w", err)
	}
	return nil
}

// joinNumbers puts arrays of plain numbers on one line.
func joinNumbers(b []byte) []byte {
	out := make([]byte, 0, len(b))
	open := -1 // beginning of the innermost array that may be plain
	text, escaped := false, false
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case text && c == '\\':
			escaped = true
		case c == '"':
			text, open = !text, -1
		case text:
		case c == '[':
			open = len(out)
		case c == '{':
			open = -1
		case c == ']' && open >= 0:
			out = append(out[:open], bytes.Join(bytes.Fields(out[open:]), nil)...)
			open = -1
		}
		out = append(out, c)
	}
	return out
}

// Check returns an error that describes the fault of m, or nil.
func (m *Model) Check() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("power model %q: "+format, append([]any{m.Name}, a...)...)
	}
	switch {
	case m.Format != Format:
		return fail("format is %q, want %q: %w", m.Format, Format, ErrNotModel)
	case m.Version > Version:
		return fail("version %d, this program reads up to %d: %w", m.Version, Version, ErrNewer)
	case m.Version < 1:
		return fail("version %d does not exist", m.Version)
	case len(m.Parts) == 0:
		return fail("has no parts")
	case !allFinite(m.Band.Low, m.Band.High, m.Band.Coverage, m.StepSeconds):
		return fail("band or step is not a finite number")
	case m.Band.Low < 0 || m.Band.High < m.Band.Low:
		return fail("band %g..%g is not a range", m.Band.Low, m.Band.High)
	}
	seen := make(map[string]bool)
	for i, f := range m.Features {
		key := fmt.Sprintf("%s@%d", f.Name, f.Lag)
		switch {
		case f.Name == "":
			return fail("feature %d has no name", i)
		case !allFinite(f.Min, f.Max) || f.Max < f.Min:
			return fail("feature %s has the range %g..%g", f.Name, f.Min, f.Max)
		case f.Lag < 0 || f.Lag > maxLag:
			return fail("feature %s has lag %d, want 0 to %d", f.Name, f.Lag, maxLag)
		case f.Lag > 0 && m.StepSeconds <= 0:
			return fail("feature %s has a lag but the model no step_seconds", f.Name)
		case seen[key]:
			return fail("feature %s with lag %d occurs twice", f.Name, f.Lag)
		}
		seen[key] = true
	}
	for i := range m.Parts {
		if err := m.Parts[i].check(len(m.Features)); err != nil {
			return fail("part %d: %w", i, err)
		}
	}
	return nil
}

func (p *Part) check(features int) error {
	if !allFinite(p.Weight, p.Base) {
		return errors.New("weight or base is not a finite number")
	}
	set := 0
	for _, b := range []bool{p.Terms != nil, p.Curve != nil, p.Trees != nil} {
		if b {
			set++
		}
	}
	switch {
	case set > 1:
		return errors.New("has more than one of terms, curve and trees")
	case p.Kind == KindTerms:
		return checkTerms(p.Terms, features)
	case p.Kind == KindCurve && p.Curve != nil:
		return p.Curve.check(features)
	case p.Kind == KindTrees && p.Trees != nil:
		return p.Trees.check(features)
	}
	return fmt.Errorf("kind %q has no such part; valid are %s, %s, %s", p.Kind, KindTerms, KindCurve, KindTrees)
}

func checkTerms(ts []Term, features int) error {
	for i, t := range ts {
		switch {
		case t.Feature < 0 || t.Feature >= features:
			return fmt.Errorf("term %d is of feature %d of %d", i, t.Feature, features)
		case !allFinite(t.Scale, t.Exponent, t.From, t.To, t.Watts) || t.Scale <= 0:
			return fmt.Errorf("term %d has a number that is not finite, or a scale that is not positive", i)
		case t.Shape == ShapePower && t.Exponent <= 0:
			return fmt.Errorf("term %d has the exponent %g, want more than 0", i, t.Exponent)
		case t.Shape == ShapeRamp && t.To <= t.From:
			return fmt.Errorf("term %d is a ramp from %g to %g", i, t.From, t.To)
		case t.Shape != ShapeLinear && t.Shape != ShapePower && t.Shape != ShapeRamp:
			return fmt.Errorf("term %d has the unknown shape %q", i, t.Shape)
		}
	}
	return nil
}

func (c *Curve) check(features int) error {
	n := len(c.X)
	if n < 2 || len(c.Y) != n || len(c.Slope) != n {
		return fmt.Errorf("curve has %d x, %d y and %d slopes, want equal numbers, at least 2", n, len(c.Y), len(c.Slope))
	}
	if c.Feature < 0 || c.Feature >= features {
		return fmt.Errorf("curve is of feature %d of %d", c.Feature, features)
	}
	for i := range n {
		if !allFinite(c.X[i], c.Y[i], c.Slope[i]) {
			return fmt.Errorf("curve point %d is not finite", i)
		}
		if i > 0 && c.X[i] <= c.X[i-1] {
			return fmt.Errorf("curve point %d does not lie right of the one before", i)
		}
	}
	return nil
}

func (t *Trees) check(features int) error {
	n := len(t.Value)
	if len(t.Feature) != n || len(t.Split) != n || len(t.Left) != n || len(t.Right) != n {
		return errors.New("trees have node arrays of different lengths")
	}
	for _, r := range t.Roots {
		if r < 0 || r >= n {
			return fmt.Errorf("tree root %d is not one of %d nodes", r, n)
		}
	}
	for i := range n {
		if !allFinite(t.Split[i], t.Value[i]) {
			return fmt.Errorf("tree node %d is not finite", i)
		}
		if t.Left[i] == 0 {
			continue
		}
		if t.Feature[i] < 0 || t.Feature[i] >= features {
			return fmt.Errorf("tree node %d uses feature %d of %d", i, t.Feature[i], features)
		}
		if t.Left[i] <= i || t.Left[i] >= n || t.Right[i] <= i || t.Right[i] >= n {
			return fmt.Errorf("tree node %d has the children %d and %d of %d nodes", i, t.Left[i], t.Right[i], n)
		}
	}
	return nil
}

func allFinite(vs ...float64) bool {
	for _, v := range vs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}
