package answer

import (
	"context"
	"errors"
	"time"

	"reckon/client"
	"reckon/store"
)

// Outage says what answers lack while the series can not be read or the catalogue not be
// brought up to date. A nil Outage lacks nothing.
type Outage struct {
	// Store is the store of series; nil for one that is never away.
	Store store.Reachable
	// Catalogue reports up to when the series were taken in.
	Catalogue interface {
		Watermark(ctx context.Context) (time.Time, error)
	}
	// Behind says why the catalogue is not brought up to date; nil when it is.
	Behind func() error
	// Gaps are the samples of a time that were lost to damage; nil where nobody knows.
	Gaps func(from, to time.Time) []store.Gap
}

// down is why what happens does not get into answers.
func (o *Outage) down() error {
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

// Missing says what an answer from the catalogue about a time lacks. Two zero times are an
// answer that no lost sample changes.
func (o *Outage) Missing(ctx context.Context, from, to time.Time) (missing []string) {
	if o == nil {
		return nil
	}
	if o.Gaps != nil && !to.IsZero() {
		for _, g := range o.Gaps(from, to) {
			missing = append(missing, g.String())
		}
	}
	err := o.down()
	if err == nil {
		return missing
	}
	text := "what happened lately: "
	at, bad := o.Catalogue.Watermark(ctx)
	var away interface{ Since() time.Time }
	if errors.As(err, &away) && away.Since().Before(at) { // it is asked, and takes nothing
		at = away.Since()
	}
	if bad == nil && !at.IsZero() {
		text = "what happened after " + at.UTC().Format(time.RFC3339) + ": "
	}
	return append(missing, text+err.Error())
}

// degrade turns the error of a store that is away into what is missing from an answer; other
// errors stay.
func (o *Outage) degrade(list *[]string, what string, err error) error {
	if o == nil || !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	*list = append(*list, what+": "+err.Error())
	return nil
}

// addTo adds what is missing to an answer, once.
func (o *Outage) addTo(ctx context.Context, d *client.WorkloadDetail, from, to time.Time) {
	if o != nil && len(d.Missing) == 0 {
		d.Missing = o.Missing(ctx, from, to)
	}
}
