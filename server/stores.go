package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"

	"reckon/account"
	"reckon/catalogue/database"
	"reckon/client"
	"reckon/metric"
	"reckon/store"
	"reckon/store/remote"
	"reckon/store/tsdb"
)

// seriesStore is what the server needs of a store of series, embedded or elsewhere.
type seriesStore interface {
	store.Series
	storage.SampleAndChunkQueryable
	storage.ExemplarQueryable
	storage.AppendableV2
	// Describe adds the description of a metric, Metadata returns all of them.
	Describe(name string, m metadata.Metadata) error
	Metadata() map[string]metadata.Metadata
	// Ready says why queries can not be answered yet.
	Ready() error
}

var (
	_ seriesStore = (*tsdb.Store)(nil)
	_ seriesStore = (*remote.Store)(nil)
)

// CheckStores says what is wrong with the addresses of stores; empty ones are right.
func CheckStores(series, facts string) error {
	if series != "" {
		if err := remote.ParseURL(series); err != nil {
			return fmt.Errorf("--store: %w", err)
		}
	}
	if facts != "" {
		if err := database.CheckURL(facts); err != nil {
			return fmt.Errorf("--catalogue: %w", err)
		}
	}
	return nil
}

// openSeries opens the embedded store, or the one that --store names.
func (s *Server) openSeries(ctx context.Context) error {
	c := &s.config
	if c.Store == "" {
		return s.openEmbedded()
	}
	elsewhere, err := openRemote(c.Store, filepath.Join(c.Data, "queue"), c.Retention, s)
	if err != nil {
		return err
	}
	s.series, s.outside = elsewhere, elsewhere
	check, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := elsewhere.Check(check); err != nil && ctx.Err() == nil {
		s.log.Warn("the store of series does not answer; what is measured here waits on this disk, and it is asked again", "store", elsewhere.String(), "err", err)
	}
	return nil
}

func openRemote(address, queue string, history time.Duration, s *Server) (*remote.Store, error) {
	o := remote.Options{URL: address, Natives: nativeNames(), Queue: queue, History: history}
	if s != nil {
		o.Logger, o.Sent = s.log, s.changed
	}
	return remote.Open(o)
}

// nativeNames are our native histograms.
func nativeNames() (names []string) {
	for _, d := range account.Descs() {
		if d.Kind == metric.NativeHistogram {
			names = append(names, d.Name)
		}
	}
	return names
}

// openFacts opens the catalogue, in the data directory or where --catalogue names it.
func (s *Server) openFacts(ctx context.Context) (err error) {
	if s.config.Catalogue != "" {
		s.facts, err = database.OpenURL(ctx, s.config.Catalogue, s.log)
		return err
	}
	if s.facts, err = database.Open(filepath.Join(s.config.Data, "catalogue.db"), s.log); err != nil {
		return err
	}
	return s.facts.Warm(ctx)
}

// changed tells that samples were stored.
func (s *Server) changed() {
	select {
	case s.updated <- struct{}{}:
	default:
	}
}

// outage says what is missing from answers now.
type outage struct {
	store  store.Reachable // nil for a store that is never away
	facts  store.Catalogue
	behind *behind
}

// behind is why the catalogue is not brought up to date: its disk is full, its database
// hangs. Whoever asks it is told.
type behind struct {
	mu   sync.Mutex
	err  error
	said time.Time
}

// note takes how an attempt ended, and reports whether that is worth saying: at first, and
// then every ten minutes while it lasts, however the words change.
func (b *behind) note(err error, now time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	news = err != nil && (b.err == nil || now.Sub(b.said) >= 10*time.Minute)
	if b.err = err; news {
		b.said = now
	}
	return news
}

func (b *behind) why() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// down is why what happens does not get into answers.
func (o *outage) down() error {
	if o.store != nil {
		if err := o.store.Down(); err != nil {
			return err
		}
	}
	return o.behind.why()
}

// missing says what an answer from the catalogue lacks because the series can not be read,
// or the catalogue not be written.
func (o *outage) missing(ctx context.Context) []string {
	if o == nil {
		return nil
	}
	err := o.down()
	if err == nil {
		return nil
	}
	text := "what happened lately: "
	at, bad := o.facts.Watermark(ctx)
	var away interface{ Since() time.Time }
	if errors.As(err, &away) && away.Since().Before(at) { // it is asked, and takes nothing
		at = away.Since()
	}
	if bad == nil && !at.IsZero() {
		text = "what happened after " + at.UTC().Format(time.RFC3339) + ": "
	}
	return []string{text + err.Error()}
}

// lacks turns the error of a store that is away into what is missing from an answer; other
// errors stay.
func (o *outage) lacks(list *[]string, what string, err error) error {
	if o == nil || !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	*list = append(*list, what+": "+err.Error())
	return nil
}

// partly adds what is missing to an answer, once.
func (o *outage) partly(ctx context.Context, d *client.WorkloadDetail) {
	if o != nil && len(d.Missing) == 0 {
		d.Missing = o.missing(ctx)
	}
}

// Shown is an address of a store without what stands behind the question mark.
func Shown(address string) string {
	plain, _, _ := strings.Cut(address, "?")
	return plain
}
