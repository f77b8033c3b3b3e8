package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"reckon/answer"
	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/internal/durable"
	"reckon/interop/importer"
	"reckon/interop/waggle"
	"reckon/store/tsdb"
	"reckon/web/api"
	"reckon/web/client"
)

// importQueue writes history to the stores, one import at a time.
type importQueue struct {
	mu      sync.Mutex
	series  importer.Store
	builder *catalogue.Builder
	dir     string
	site    string
	leaves  bool // the import stops when its context ends, and the next import finishes it
}

var _ api.Import = (*importQueue)(nil)

// Import implements api.Import.
func (i *importQueue) Import(ctx context.Context, o client.ImportOptions, next func() (string, io.Reader, error)) (client.ImportResult,
	error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	settings := importer.Options{Store: i.series, Dir: i.dir, Site: o.Site, Force: o.Force, Batch: o.Batch}
	if settings.Site == "" {
		settings.Site = i.site
	}
	if o.Fields != "" {
		settings.Fields = strings.Split(o.Fields, ",")
	}
	if o.Zone != "" {
		zone, err := time.LoadLocation(o.Zone)
		if err != nil {
			return client.ImportResult{}, answer.Invalid("give a name such as Europe/Oslo or UTC",
				fmt.Errorf("time zone %q: %w", o.Zone, err))
		}
		settings.Zone = zone
	}
	if err := i.builder.Ready(ctx); err != nil {
		return client.ImportResult{}, err
	}
	im := importer.New(settings)
	read, finish := im.Sonar, im.Finish
	switch o.Format {
	case "sacct":
		read = im.Sacct
	case "waggle": // WAGGLE data contains no workloads, so the catalogue does not change
		w := waggle.NewImporter(i.series, settings.Site, time.Now())
		read, finish = w.Read, w.Finish
	}
	var broken error
	for broken == nil {
		name, in, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if broken = err; err == nil {
			broken = read(ctx, name, in)
		}
	}
	if !i.leaves { // Write the data read before an error, so that a repeated import recognizes it.
		ctx = context.WithoutCancel(ctx)
	} else if ctx.Err() != nil {
		return client.ImportResult{}, ctx.Err()
	}
	got, err := finish(ctx)
	if err = errors.Join(broken, err); err != nil && len(got.Ranges) == 0 {
		return client.ImportResult{}, err
	}
	rows, historyErr := i.builder.History(ctx, got.Ranges, got.Gone...)
	if err = errors.Join(err, historyErr); err == nil {
		err = im.Done()
	}
	got.Rows = rows
	return got.ImportResult, err
}

// ImportFiles imports into a data directory that no server has open.
func ImportFiles(ctx context.Context, data string, log *slog.Logger, o client.ImportOptions,
	files []client.ImportFile) (r client.ImportResult, err error) {
	// Garbage is collected when the heap has doubled. This memory is never touched, but halves the number of collections.
	ballast := make([]byte, 64<<20)
	defer runtime.KeepAlive(ballast)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return r, fmt.Errorf("make the data directory: %w; choose another one with --data", err)
	}
	// No server has bounds of series here that could be lost.
	if _, err := os.Stat(filepath.Join(data, catalogueFile)); errors.Is(err, fs.ErrNotExist) {
		if err := durable.WriteJSON(filepath.Join(data, begunFile), seriesBounds{}, 0o640); err != nil {
			return r, err
		}
	}
	series, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(data, seriesDir), Retention: -1, Logger: log})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, series.Close()) }()
	series.StartBulk()
	rows, err := database.Open(filepath.Join(data, catalogueFile), log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	i := &importQueue{series: series, dir: filepath.Join(data, "imports"), leaves: true,
		builder: catalogue.NewBuilder(series, rows, catalogue.BuilderOptions{Logger: log, Progress: func(step string, to time.Time) {
			if o.Progress != nil {
				o.Progress(step + " until " + to.UTC().Format("2006-01-02 15:04"))
			}
		}})}
	open := io.NopCloser(nil)
	defer func() { err = errors.Join(err, open.Close()) }()
	return i.Import(ctx, o, func() (string, io.Reader, error) {
		done := open
		open = io.NopCloser(nil)
		if err := done.Close(); err != nil || len(files) == 0 {
			return "", nil, cmp.Or(err, io.EOF)
		}
		f := files[0]
		files = files[1:]
		in, err := f.Open()
		if err != nil {
			return "", nil, err
		}
		open = in
		return f.Name, in, nil
	})
}
