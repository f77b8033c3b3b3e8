package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/account"
	"reckon/catalogue/database"
	"reckon/internal/dirty"
	"reckon/metric"
	"reckon/sensor/task"
	"reckon/server/cluster"
	"reckon/store/remote"
)

// Names in a data directory.
const (
	seriesDir     = "series"
	catalogueFile = "catalogue.db"
	dirtyKey      = "dirty" // of the hours of a store elsewhere that got late samples
)

// CheckStores returns an error if an address of a store is invalid. Empty addresses are valid.
func CheckStores(series, catalogue string) error {
	if series != "" {
		if err := remote.ParseURL(series); err != nil {
			return fmt.Errorf("--store: %w", err)
		}
	}
	if catalogue != "" {
		if err := database.CheckURL(catalogue); err != nil {
			return fmt.Errorf("--catalogue: %w", err)
		}
	}
	return nil
}

// openSeries opens the embedded store or the one of --store.
func (s *Server) openSeries(ctx context.Context) error {
	c := &s.config
	if c.Store == "" {
		return s.openEmbedded()
	}
	if err := s.openDatabase(ctx); err != nil { // it keeps which hours of that store got late samples
		return err
	}
	elsewhere, err := openRemote(c.Store, filepath.Join(c.Data, "queue"), c.Retention, s)
	if err != nil {
		return err
	}
	s.series, s.samples = elsewhere, elsewhere
	check, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := elsewhere.Check(check); err != nil && ctx.Err() == nil {
		s.log.Warn("the store of series does not answer; what is measured here waits on this disk, and it is asked again", "store",
			elsewhere.String(), "err", err)
	}
	return nil
}

func openRemote(address, queue string, history time.Duration, s *Server) (*remote.Store, error) {
	o := remote.Options{URL: address, Natives: nativeNames(), Queue: queue, History: history}
	if s != nil {
		o.Logger, o.Sent, o.Dirty = s.log, s.notifyStored, dirty.State{Facts: s.catalogue, Key: dirtyKey}
		if m := s.config.member; m != nil {
			o.Shared = cluster.NewLate(m.lease)
		}
	}
	return remote.Open(o)
}

// nativeNames are the names of our native histograms.
func nativeNames() (names []string) {
	for _, d := range slices.Concat(account.Descs(), task.TallyDescs()) {
		if d.Kind == metric.NativeHistogram {
			names = append(names, d.Name)
		}
	}
	return names
}

// openDatabase opens the catalogue database in the data directory or at the address of --catalogue.
func (s *Server) openDatabase(ctx context.Context) error {
	if m := s.config.member; m != nil {
		c, err := database.OpenMember(ctx, s.config.Catalogue, s.log, m.lease.Fence(m.epoch))
		if err == nil {
			s.catalogue = c
		}
		return err
	}
	if s.config.Catalogue != "" {
		c, err := openAlone(ctx, s.config.Catalogue, s.log)
		if err == nil {
			s.catalogue = c
		}
		return err
	}
	c, err := database.Open(filepath.Join(s.config.Data, catalogueFile), s.log)
	if err != nil {
		return err
	}
	s.catalogue = c
	return c.Warm(ctx)
}

// openAlone opens a PostgreSQL catalogue for a program that is the only writer. It returns an error if several servers
// share the catalogue, because they and the writer would do the same work twice.
func openAlone(ctx context.Context, address string, log *slog.Logger) (*database.Catalogue, error) {
	c, err := database.OpenURL(ctx, address, log)
	if err != nil {
		return nil, err
	}
	leader, err := cluster.Leading(ctx, c.Shared().DB)
	if err == nil && leader != "" {
		err = fmt.Errorf(
			"several servers have the catalogue in %s in common, and %s leads: start this one with the setting member and its own "+
				"address (see `reckon docs stores`), or stop them first", HideParameters(address), leader)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// notifyStored reports that samples were stored.
func (s *Server) notifyStored() {
	select {
	case s.updated <- struct{}{}:
	default:
	}
}

// reportViewer records that a user reads the catalogue and, if usage is set, the usage. The server then keeps the
// catalogue up to date for some time, so that a repeated request returns newer data.
func (s *Server) reportViewer(usage bool) {
	if usage && s.builder != nil {
		s.builder.RequestRun()
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// catalogueLag holds the reason why the catalogue is not up to date, such as a full disk or a database that does not
// respond. Answers of the API include the reason.
type catalogueLag struct {
	mu     sync.Mutex
	err    error
	logged time.Time
}

// recordUpdate records the result of an update of the catalogue. It reports whether the caller should log it. That is so when
// a failure begins, and every ten minutes while it lasts, even if the message changes.
func (b *catalogueLag) recordUpdate(err error, now time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	news = err != nil && (b.err == nil || now.Sub(b.logged) >= 10*time.Minute)
	if b.err = err; news {
		b.logged = now
	}
	return news
}

func (b *catalogueLag) reason() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// HideParameters returns the address of a store without its query parameters.
func HideParameters(address string) string {
	plain, _, _ := strings.Cut(address, "?")
	return plain
}
