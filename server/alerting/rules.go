package alerting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"reckon/deploy/alerts"
)

// defaultRules is the name of the built-in rules.
const defaultRules = "default"

// watchdogRules is the name of the rules with an alert that always fires.
const watchdogRules = "watchdog"

// loadRules reads every rule file, and accepts them only if all are valid.
func (s *Service) loadRules() error {
	files, err := ruleFiles(s.o.Rules)
	if err != nil {
		return err
	}
	l := ruleLoader{s.o.Parser, s.log}
	for _, f := range files {
		if _, errs := l.Load(f, false, model.UTF8Validation); len(errs) > 0 {
			return fmt.Errorf("rules of %s: %w; `promtool check rules FILE` checks a file", f, errors.Join(errs...))
		}
	}
	return s.manager.Update(s.o.Interval, files, labels.EmptyLabels(), s.o.External, nil)
}

// ruleFiles resolves patterns. A pattern that finds nothing is a mistake.
func ruleFiles(patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return []string{defaultRules}, nil
	}
	var out []string
	for _, p := range patterns {
		switch p {
		case "none":
			continue
		case defaultRules, watchdogRules:
			out = append(out, p)
			continue
		}
		found, err := filepath.Glob(p)
		if err != nil {
			return nil, fmt.Errorf("rules %s: %w", p, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("rules %s: there is no such file; give rule files, default or none", p)
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// ruleLoader reads rule files; default stands for the built-in ones.
type ruleLoader struct {
	parser parser.Parser
	log    *slog.Logger
}

func (l ruleLoader) Load(name string, lax bool, scheme model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	switch name {
	case defaultRules:
		return rulefmt.Parse(alerts.Rules(), lax, scheme, l.parser, quietLogger(l.log))
	case watchdogRules:
		return rulefmt.Parse(alerts.Watchdog(), lax, scheme, l.parser, quietLogger(l.log))
	}
	return rulefmt.ParseFile(name, lax, scheme, l.parser, quietLogger(l.log))
}

func (l ruleLoader) Parse(expr string) (parser.Expr, error) { return l.parser.ParseExpr(expr) }

// appendableV1 adapts our store to the interface that the rule manager requires.
type appendableV1 struct{ to storage.AppendableV2 }

func (o appendableV1) Appender(ctx context.Context) storage.Appender {
	return &appenderV1{to: o.to.AppenderV2(ctx)}
}

type appenderV1 struct {
	to   storage.AppenderV2
	opts storage.AOptions
}

var errRulesOnly = errors.New("rules write samples and histograms only")

func (a *appenderV1) Append(ref storage.SeriesRef, ls labels.Labels, t int64, v float64) (storage.SeriesRef, error) {
	return a.to.Append(ref, ls, 0, t, v, nil, nil, a.opts)
}
func (a *appenderV1) AppendHistogram(ref storage.SeriesRef, ls labels.Labels, t int64, h *histogram.Histogram,
	fh *histogram.FloatHistogram) (storage.SeriesRef, error) {
	return a.to.Append(ref, ls, 0, t, 0, h, fh, a.opts)
}
func (a *appenderV1) SetOptions(o *storage.AppendOptions) {
	a.opts.RejectOutOfOrder = o != nil && o.DiscardOutOfOrder
}
func (a *appenderV1) Commit() error   { return a.to.Commit() }
func (a *appenderV1) Rollback() error { return a.to.Rollback() }
func (a *appenderV1) AppendExemplar(storage.SeriesRef, labels.Labels, exemplar.Exemplar) (storage.SeriesRef, error) {
	return 0, errRulesOnly
}
func (a *appenderV1) AppendHistogramSTZeroSample(storage.SeriesRef, labels.Labels, int64, int64, *histogram.Histogram,
	*histogram.FloatHistogram) (storage.SeriesRef, error) {
	return 0, errRulesOnly
}
func (a *appenderV1) AppendSTZeroSample(storage.SeriesRef, labels.Labels, int64, int64) (storage.SeriesRef, error) {
	return 0, errRulesOnly
}
func (a *appenderV1) UpdateMetadata(storage.SeriesRef, labels.Labels, metadata.Metadata) (storage.SeriesRef, error) {
	return 0, errRulesOnly
}

// redactPassword removes the password from an address.
func redactPassword(address string) string {
	if at := strings.LastIndex(address, "@"); at >= 0 {
		if scheme := strings.Index(address, "://"); scheme >= 0 && scheme < at {
			return address[:scheme+3] + address[at+1:]
		}
	}
	return address
}
