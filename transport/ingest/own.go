package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"

	"reckon/metric"
)

// RestrictedSender is a sender that may only send its own figures: a local user without a token. Its data gets these labels.
type RestrictedSender struct {
	Owner, Node, Site string
	// Runs reports whether a workload belongs to the owner.
	Runs func(ctx context.Context, workload string) (bool, error)

	known map[string]bool // results of Runs in this request
}

// labelOwn adds labels to a series of a sender that may send only its own figures. An error rejects the whole request,
// so that an agent keeps its measurements until it has a token.
func (w *requestWriter) labelOwn(ctx context.Context, ls labels.Labels) (labels.Labels, error) {
	o := w.who.own
	if o == nil {
		return ls, nil
	}
	name := ls.Get(model.MetricNameLabel)
	if err := metric.CheckOwnName(name, false); err != nil {
		return ls, o.refusalError("%v", err)
	}
	b := labels.NewBuilder(ls)
	for _, l := range [...]struct{ name, value string }{{"owner", o.Owner}, {"node", o.Node}, {"site", o.Site}} {
		if given := ls.Get(l.name); given != "" && given != l.value {
			return ls, o.refusalError("%s has %s=%q", name, l.name, given)
		}
		b.Set(l.name, l.value)
	}
	id := ls.Get("workload")
	kind, _, _ := strings.Cut(id, "/")
	if given := ls.Get("kind"); given != "" && given != kind {
		return ls, o.refusalError("%s has kind=%q", name, given)
	}
	if id != "" {
		mine, known := o.known[id]
		if !known {
			var err error
			if mine, err = o.Runs(ctx, id); err != nil {
				return ls, err
			}
			if o.known == nil {
				o.known = map[string]bool{}
			}
			o.known[id] = mine
		}
		if !mine {
			return ls, o.refusalError("%s is about %q, and no such workload of %s is known", name, id, o.Owner)
		}
		b.Set("kind", kind)
	}
	return b.Labels(), nil
}

func (o *RestrictedSender) refusalError(format string, args ...any) error {
	return newStatusError(http.StatusForbidden, "%s, and %s may send figures of their own only, of node %s: for others make a token with "+
		"`reckon token create --agent` on the server and give it to the sender", fmt.Sprintf(format, args...), o.Owner, o.Node)
}

// addMetadata stores the description of a metric. For a restricted sender, it ignores metrics with reserved names.
func (w *requestWriter) addMetadata(name string, m metadata.Metadata) {
	if w.who.own == nil || metric.CheckOwnName(name, false) == nil {
		w.h.meta.record(name, m)
	}
}

// findCached returns the cached series for the hash of the labels as sent, or nil. It returns nil for a restricted
// sender, because the cached series may belong to another user.
func (w *requestWriter) findCached(key hash128) *cachedSeries {
	if w.who.own != nil {
		return nil
	}
	return w.h.series.get(key, w.round, w.before)
}

// checkLabels validates the labels of a series. For a sender that may send only its own figures, it adds the owner. ok
// is false if the series is invalid. An error rejects the whole request.
func (w *requestWriter) checkLabels(ls labels.Labels, samples int) (_ labels.Labels, ok bool, err error) {
	if !w.hasValidLabels(ls, samples) {
		return ls, false, nil
	}
	ls, err = w.labelOwn(w.ctx, ls)
	return ls, err == nil, err
}

// checkScope returns an error if a series belongs to a node outside the scope of the sender's token. The error rejects
// the whole request, so that the sender keeps it until the configuration is corrected.
func (w *requestWriter) checkScope(ls labels.Labels) error {
	if w.who.allowed == nil || w.who.allowed(ls.Get("site"), ls.Get("node")) {
		return nil
	}
	return newStatusError(http.StatusForbidden,
		"the token may not send for site %q, node %q (series %s); make one that may with `reckon token create --agent --site SITE "+
			"--node NODE`",
		ls.Get("site"), ls.Get("node"), ls.Get(model.MetricNameLabel))
}

func (w *requestWriter) hasValidLabels(ls labels.Labels, samples int) bool {
	if !ls.Has(model.MetricNameLabel) || !ls.IsValid(model.UTF8Validation) {
		w.addRefused(reasonInvalid, samples, "%s is no valid set of labels", ls)
		return false
	}
	if twice, bad := ls.HasDuplicateLabelNames(); bad {
		w.addRefused(reasonInvalid, samples, "%s has the label %s twice", ls, twice)
		return false
	}
	return true
}
