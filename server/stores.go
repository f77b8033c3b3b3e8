package server

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"

	"reckon/account"
	"reckon/catalogue/database"
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

// Shown is an address of a store without what stands behind the question mark.
func Shown(address string) string {
	plain, _, _ := strings.Cut(address, "?")
	return plain
}
