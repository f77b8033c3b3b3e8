package promtext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"reckon/metric"
)

// Limits of a series.
const (
	maxName   = 200  // bytes of a name
	maxLabels = 30   // of one series
	maxValue  = 1024 // bytes of a label value
	maxHelp   = 500  // bytes of a description; longer ones are cut
)

// Reserved returns the names of labels that identify the workload and the sender of a series. The agent sets them
// itself and drops them from a page.
func Reserved() []string { return []string{"workload", "kind", "part", "owner", "node", "site"} }

// Rules configure the reading of a page.
type Rules struct {
	// MaxSeries is the maximum number of series of a page; a larger page is refused completely.
	MaxSeries int
	// Labels are added to each series; a label of the page with the same name becomes
	// exported_NAME, and so do [Reserved] labels.
	Labels []Label
	// Claims lets a page set the workload of each series by the label workload.
	Claims bool
	// Strict refuses labels that would be renamed.
	Strict bool
	// Wanted reports which metrics are taken, by name; nil takes all.
	Wanted func(name string) bool
}

// Figure is one value of a page.
type Figure struct {
	Series *metric.Series
	Claim  string // the workload claimed by the page, if that is allowed
	Value  float64
}

// Page reads successive versions of the same page.
type Page struct {
	rules     Rules
	known     map[string]*pageSeries  // by the series as written
	descs     map[string]*metric.Desc // by name and names of labels
	described map[string]metadata     // by name
	figures   []Figure
	round     uint64
}

type pageSeries struct {
	series *metric.Series // nil: not wanted
	claim  string
	round  uint64
}

// metadata is the metadata of a metric on the page.
type metadata struct {
	kind, help string
}

// NewPage returns a page that has not been read yet.
func NewPage(r Rules) *Page {
	if r.MaxSeries <= 0 {
		r.MaxSeries = 1000
	}
	return &Page{rules: r, known: map[string]*pageSeries{}, descs: map[string]*metric.Desc{}, described: map[string]metadata{}}
}

// Read parses a page in the text format. On an error, it returns no figures. The figures are valid until the next Read.
// A series keeps its pointer for as long as it is in every page.
func (p *Page) Read(text []byte) ([]Figure, error) {
	p.round++
	p.figures = p.figures[:0]
	lines := Parse(text)
	for {
		l, err := lines.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if l.Kind != Sample {
			p.recordMetadata(&l)
			continue
		}
		r := p.known[string(l.Series)]
		if r == nil {
			if r, err = p.addSeries(l.Series); err != nil {
				return nil, fmt.Errorf("line %d: %w", lines.Number(), err)
			}
			p.known[string(l.Series)] = r
		}
		if r.series == nil || math.IsNaN(l.Value) {
			r.round = p.round
			continue
		}
		if r.round == p.round {
			return nil, fmt.Errorf("line %d: the series stands there twice", lines.Number())
		}
		r.round = p.round
		if len(p.figures) == p.rules.MaxSeries {
			return nil, fmt.Errorf("it has more than %d series; leave some out, or allow more", p.rules.MaxSeries)
		}
		p.figures = append(p.figures, Figure{r.series, r.claim, l.Value})
	}
	p.dropMissing()
	return p.figures, nil
}

// dropMissing drops series that are no longer on the page.
func (p *Page) dropMissing() {
	if len(p.known) > 2*len(p.figures)+16 || p.round%16 == 0 {
		for text, r := range p.known {
			if r.round != p.round {
				delete(p.known, text)
			}
		}
	}
	if most := 2*p.rules.MaxSeries + 64; len(p.described) > most || len(p.descs) > most {
		clear(p.described)
		clear(p.descs)
		clear(p.known)
	}
}

func (p *Page) recordMetadata(l *Line) {
	was, known := p.described[string(l.Series)]
	now := was
	if l.Kind == Type {
		if string(l.Text) != was.kind {
			now.kind = string(l.Text)
		}
	} else if string(l.Text) != was.help {
		now.help = cleanHelp(l.Text)
	}
	if !known || now != was {
		p.described[string(l.Series)] = now
	}
}

// cleanHelp unescapes a description and limits its length.
func cleanHelp(text []byte) string {
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`\\`), []byte(`\`)), []byte(`\n`), []byte(" "))
	if len(text) > maxHelp {
		text = text[:maxHelp]
	}
	return strings.ToValidUTF8(string(text), "")
}

// addSeries parses the text of a new series.
func (p *Page) addSeries(text []byte) (*pageSeries, error) {
	name, labels, err := Split(text)
	if err != nil {
		return nil, err
	}
	if len(name) > maxName {
		return nil, fmt.Errorf("the name of the metric is longer than %d bytes", maxName)
	}
	if p.rules.Wanted != nil && !p.rules.Wanted(name) {
		return &pageSeries{}, nil
	}
	r := &pageSeries{}
	names, values := make([]string, 0, len(labels)+len(p.rules.Labels)), make([]string, 0, len(labels)+len(p.rules.Labels))
	for _, l := range p.rules.Labels {
		names, values = append(names, l.Name), append(values, l.Value)
	}
	for _, l := range labels {
		if l.Name == "workload" && p.rules.Claims {
			r.claim = l.Value
			continue
		}
		if l.Name, err = p.freeLabelName(l.Name, names); err != nil {
			return nil, err
		}
		if len(l.Value) > maxValue {
			return nil, fmt.Errorf("the value of the label %s is longer than %d bytes", l.Name, maxValue)
		}
		names, values = append(names, l.Name), append(values, l.Value)
	}
	if len(names) > maxLabels {
		return nil, fmt.Errorf("the series has more than %d labels", maxLabels)
	}
	sortByName(names, values)
	r.series = metric.NewSeries(p.descFor(name, names), values...)
	return r, nil
}

// freeLabelName returns a new name for a label of the page that has a reserved name. The new name must not be in taken.
func (p *Page) freeLabelName(name string, taken []string) (string, error) {
	if strings.HasPrefix(name, "__") {
		return "", fmt.Errorf("the label %s begins with two underscores, which is kept for the database", name)
	}
	for slices.Contains(taken, name) || slices.Contains(Reserved(), name) {
		if p.rules.Strict {
			return "", fmt.Errorf("the label %s is set by the agent, from where the figure comes from; leave it out", name)
		}
		name = "exported_" + name
	}
	if len(name) > maxName {
		return "", errors.New("the name of a label is too long")
	}
	return name, nil
}

func sortByName(names, values []string) {
	for i := 1; i < len(names); i++ { // few, and mostly in order
		for j := i; j > 0 && names[j] < names[j-1]; j-- {
			names[j], names[j-1] = names[j-1], names[j]
			values[j], values[j-1] = values[j-1], values[j]
		}
	}
}

// descFor returns the description of a metric with these labels.
func (p *Page) descFor(name string, labels []string) *metric.Desc {
	key := name + "\xff" + strings.Join(labels, "\xff")
	if d := p.descs[key]; d != nil {
		return d
	}
	kind, help := p.kindAndHelp(name)
	d := &metric.Desc{Name: name, Kind: kind, Help: help, Labels: labels}
	p.descs[key] = d
	return d
}

// kindAndHelp returns the kind and help text of a metric from the metadata of the page. For a part of a histogram or
// summary, it uses the metadata of the whole. Without metadata, a name that ends like a counter's name is a counter.
func (p *Page) kindAndHelp(name string) (metric.Kind, string) {
	if t, ok := p.described[name]; ok && t.kind != "" && t.kind != "untyped" && t.kind != "unknown" {
		if t.kind == "counter" {
			return metric.Counter, t.help
		}
		return metric.Gauge, t.help // including quantiles of a summary
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, ok := strings.CutSuffix(name, suffix)
		if t := p.described[base]; ok && (t.kind == "histogram" || t.kind == "summary") {
			return metric.Counter, t.help
		}
	}
	help := p.described[name].help
	if strings.HasSuffix(name, "_total") {
		return metric.Counter, help
	}
	return metric.Gauge, help
}

// Quote returns a label value in the quotes and escapes of the format.
func Quote(value string) string {
	if !utf8.ValidString(value) {
		value = strings.ToValidUTF8(value, "\uFFFD")
	}
	return `"` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(value) + `"`
}
