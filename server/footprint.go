package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"reckon/analysis/footprint"
	"reckon/answer"
)

// Footprint returns the emissions and costs per kilowatt-hour. It is safe for concurrent use. A nil
// Footprint returns nothing.
type Footprint struct{ carbon, tariff *energyRate }

// energyRate is a constant, or a file that is read again when it has changed.
type energyRate struct {
	path, unit string
	log        *slog.Logger

	mu      sync.Mutex
	value   *footprint.Rate
	changed time.Time // of the file
	looked  time.Time
}

// OpenFootprint parses the settings grid-intensity and tariff. Each is a number with a unit, or the path of a file with
// values over time. An empty setting means that the value is unknown.
func OpenFootprint(grid, tariff string, log *slog.Logger) (*Footprint, error) {
	f := new(Footprint)
	var err error
	if f.carbon, err = openRate(grid, "g", log); err != nil {
		return nil, fmt.Errorf("grid-intensity: %w", err)
	}
	if f.tariff, err = openRate(tariff, "", log); err != nil {
		return nil, fmt.Errorf("tariff: %w", err)
	}
	return f, nil
}

func openRate(text, unit string, log *slog.Logger) (*energyRate, error) {
	if text == "" {
		return nil, nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := &energyRate{path: text, unit: unit, log: log}
	_, err := os.Stat(text)
	switch {
	case err == nil:
		return r, r.readFile()
	case strings.ContainsAny(text[:1], "0123456789."):
		r.path = ""
		r.value, err = footprint.ParseConstant(text, unit)
		return r, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%q is neither a number nor a file; give such as 385 g/kWh, 0.28 EUR, or a CSV file of time,value", text)
	}
	return nil, err
}

func (r *energyRate) readFile() error {
	f, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	v, err := footprint.ReadSteps(f, r.unit)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	r.value, r.changed, r.looked = v, info.ModTime(), time.Now()
	return nil
}

// currentRate returns the rate. It reads a changed file again, but checks the file no more than once a minute.
func (r *energyRate) currentRate() *footprint.Rate {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.path != "" && time.Since(r.looked) > time.Minute {
		r.looked = time.Now()
		if info, err := os.Stat(r.path); err == nil && !info.ModTime().Equal(r.changed) {
			if err := r.readFile(); err != nil {
				r.changed = info.ModTime() // reported once for each change
				r.log.Warn("rates are not read again; the ones before hold on", "err", err)
			}
		}
	}
	return r.value
}

// currentRates returns the current rates for answers; nil if none are known.
func (f *Footprint) currentRates() *answer.Rates {
	if f == nil {
		return nil
	}
	return &answer.Rates{Carbon: f.carbon.currentRate, Tariff: f.tariff.currentRate}
}
