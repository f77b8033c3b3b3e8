package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"reckon/answer"
	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/interop/importer"
	"reckon/interop/waggle"
	"reckon/store/tsdb"
	"reckon/web/api"
	"reckon/web/client"
)

// imports takes history into the stores, one import at a time.
type imports struct {
	mu      sync.Mutex
	series  importer.Store
	builder *catalogue.Builder
	dir     string
	site    string
	leaves  bool // an import ends where it is when its context does: the next one finishes it
}

var _ api.Import = (*imports)(nil)

// Import implements api.Import.
func (i *imports) Import(ctx context.Context, o client.ImportOptions, next func() (string, io.Reader, error)) (client.ImportResult, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if o.Format == "waggle" {
		return i.waggle(ctx, o, next)
	}
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
	var broken error
	for broken == nil {
		name, in, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if broken = err; err != nil {
			break
		}
		if o.Format == "sacct" {
			broken = im.Sacct(ctx, name, in)
		} else {
			broken = im.Sonar(ctx, name, in)
		}
	}
	if !i.leaves { // what was read before something broke is written, and known when it comes again
		ctx = context.WithoutCancel(ctx)
	} else if ctx.Err() != nil {
		return client.ImportResult{}, ctx.Err()
	}
	got, err := im.Finish(ctx)
	if err = errors.Join(broken, err); err != nil && len(got.Ranges) == 0 {
		return client.ImportResult{}, err
	}
	rows, historyErr := i.builder.History(ctx, got.Ranges, got.Gone...)
	if err = errors.Join(err, historyErr); err == nil {
		err = im.Done()
	}
	return result(got, rows), err
}

// waggle imports what the data API of Waggle answered. Nothing of it is a workload, so the catalogue does not change.
func (i *imports) waggle(ctx context.Context, o client.ImportOptions, next func() (string, io.Reader, error)) (client.ImportResult, error) {
	site := o.Site
	if site == "" {
		site = i.site
	}
	im := waggle.NewImporter(i.series, site, time.Now())
	var broken error
	for broken == nil {
		name, in, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if broken = err; err == nil {
			broken = im.Read(ctx, name, in)
		}
	}
	got, err := im.Finish(context.WithoutCancel(ctx))
	return result(got, 0), errors.Join(broken, err)
}

func result(r importer.Result, rows int) client.ImportResult {
	out := client.ImportResult{
		Files: r.Files, Unread: r.Unread, Records: r.Records, Taken: r.Taken, Known: r.Known, Resumed: r.Resumed, Measured: r.Measured,
		Waiting:    r.Waiting,
		Heartbeats: r.Heartbeats, Refused: r.Refused,
		Workloads: r.Workloads, Samples: r.Samples, Rows: rows, BadCount: r.BadCount, Bad: []client.ImportBad{}, BadFields: r.BadFields,
	}
	if !r.From.IsZero() {
		out.From, out.To = &r.From, &r.To
	}
	for _, b := range r.Bad {
		out.Bad = append(out.Bad, client.ImportBad{File: b.File, Line: b.Line, Error: b.Err, Count: b.Count})
	}
	return out
}

// ImportFiles imports into a data directory that no server has open.
func ImportFiles(ctx context.Context, data string, log *slog.Logger, o client.ImportOptions,
	files []client.ImportFile) (r client.ImportResult, err error) {
	if err := os.MkdirAll(data, 0o750); err != nil {
		return r, fmt.Errorf("make the data directory: %w; choose another one with --data", err)
	}
	series, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(data, seriesDir), Retention: -1, Logger: log})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, series.Close()) }()
	rows, err := database.Open(filepath.Join(data, catalogueFile), log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	i := &imports{series: series, dir: filepath.Join(data, "imports"), leaves: true,
		builder: catalogue.NewBuilder(series, rows, catalogue.BuilderOptions{Logger: log, Progress: o.Progress})}
	var open io.Closer
	defer func() {
		if open != nil {
			err = errors.Join(err, open.Close())
		}
	}()
	at := 0
	return i.Import(ctx, o, func() (string, io.Reader, error) {
		if open != nil {
			if err := open.Close(); err != nil {
				return "", nil, err
			}
			open = nil
		}
		if at == len(files) {
			return "", nil, io.EOF
		}
		f := files[at]
		at++
		in, err := f.Open()
		if err != nil {
			return "", nil, err
		}
		open = in
		return f.Name, in, nil
	})
}
