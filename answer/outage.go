package answer

import (
	"context"
	"errors"
	"time"

	"reckon/figure/wire"
	"reckon/store"
)

// Outage describes the gaps of answers while the series are unreadable or the catalogue cannot be updated. A
// nil Outage reports nothing.
type Outage struct {
	// Store is the store of series; nil if it is never unavailable.
	Store store.Reachable
	// Catalogue reports how far it includes the series.
	Catalogue interface {
		Watermark(ctx context.Context) (time.Time, error)
	}
	// Behind returns why the catalogue is not being updated, or nil. If the error has a method All
	// that returns true, any data may be missing, not only recent data.
	Behind func() error
	// Gaps returns the samples of a time range that were lost to damage; nil if unknown.
	Gaps func(from, to time.Time) []store.Gap
}

// lagReason returns why answers lack current data, or nil.
func (o *Outage) lagReason() error {
	if o.Store != nil {
		if err := o.Store.Down(); err != nil {
			return err
		}
	}
	if o.Behind == nil {
		return nil
	}
	return o.Behind()
}

// farFuture is the end of a time range without an end.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Missing lists the gaps of a catalogue answer about a time range. Pass two zero times for an answer that does
// not depend on lost samples.
func (o *Outage) Missing(ctx context.Context, from, to time.Time) (missing []string) {
	if o == nil {
		return nil
	}
	if o.Gaps != nil && !to.IsZero() {
		for _, g := range o.Gaps(from, to) {
			missing = append(missing, g.String())
		}
	}
	err := o.lagReason()
	if err == nil {
		return missing
	}
	text := "recent events: "
	at, bad := o.Catalogue.Watermark(ctx)
	var away interface{ Since() time.Time }
	if errors.As(err, &away) && away.Since().Before(at) { // the store is queried but accepts no writes
		at = away.Since()
	}
	var all interface{ All() bool }
	switch {
	case errors.As(err, &all) && all.All():
		text = ""
	case bad == nil && !at.IsZero():
		text = "events after " + at.UTC().Format(time.RFC3339) + ": "
	}
	return append(missing, text+err.Error())
}

// addMissing adds an entry about what to the list of missing parts and returns nil if err is from an unavailable store. It
// returns any other error unchanged.
func (o *Outage) addMissing(list *[]string, what string, err error) error {
	if o == nil || !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	*list = append(*list, what+": "+err.Error())
	return nil
}

// addToDetail adds the missing parts to an answer, once.
func (o *Outage) addToDetail(ctx context.Context, d *wire.WorkloadDetail, from, to time.Time) {
	if o != nil && len(d.Missing) == 0 {
		d.Missing = o.Missing(ctx, from, to)
	}
}
