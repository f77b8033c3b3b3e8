package hourly

import (
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/metadata"
)

// kind is the method by which the samples of an hour are reduced to one.
type kind uint8

const (
	gauge   kind = iota // their mean
	counter             // the last, so that differences are preserved
	last                // the last: a mean of dates or facts is meaningless
)

// kinds determines the kind of each metric from its description, or from the suffix of its name if it has none.
type kinds struct {
	described map[string]metadata.Metadata
	known     map[string]kind
}

func newKinds(described map[string]metadata.Metadata) *kinds {
	return &kinds{described: described, known: map[string]kind{}}
}

func (k *kinds) kind(name string) kind {
	if v, ok := k.known[name]; ok {
		return v
	}
	v := k.find(name)
	k.known[strings.Clone(name)] = v
	return v
}

func (k *kinds) find(name string) kind {
	switch k.described[name].Type {
	case model.MetricTypeCounter, model.MetricTypeHistogram:
		return counter
	case model.MetricTypeGauge, model.MetricTypeSummary: // a summary's own name holds its quantiles
		return gaugeKind(name)
	case model.MetricTypeInfo, model.MetricTypeStateset:
		return last
	}
	for _, end := range []string{"_total", "_sum", "_count", "_bucket"} {
		family, ok := strings.CutSuffix(name, end)
		if !ok {
			continue
		}
		switch k.described[family].Type {
		case model.MetricTypeGauge, model.MetricTypeGaugeHistogram:
			return gauge
		}
		return counter
	}
	return gaugeKind(name)
}

// gaugeKind distinguishes gauges that hold a date or a fact from those that hold an amount.
func gaugeKind(name string) kind {
	for _, end := range []string{"_info", "_time_seconds", "_timestamp_seconds", "_timestamp", "_created", "_exit_code", "_state"} {
		if strings.HasSuffix(name, end) {
			return last
		}
	}
	return gauge
}
