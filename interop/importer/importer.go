// Package importer turns what sonar and sacct have written into the series that reckon
// would have measured, so that everything that answers from series answers about it too.
//
// Every series carries the label source, sonar or sacct, besides those of a measured one.
// What was imported counts once, in whatever order it comes: readings are kept as they were
// told in a journal below the data directory, imports/SITE, and series are made from it in
// the order of time. When readings come that are older than others of their node, the series
// behind them are made again, until nothing comes out otherwise than before. What reckon
// itself measured goes before what others did. An import that was cut off is finished by
// the next one.
//
// What sonar means (see package sonar) and what becomes of it:
//   - The CPU time of a process holds that of children it has waited for. What a process
//     that is gone had used is therefore not counted again when its parent, or the nearest
//     living one above that, has grown by it.
//   - A mean over the lifetime of a process says nothing about any time, so releases that
//     wrote nothing else have no CPU time here. With the CPU time it gives the age of the
//     process: a job that was older than its first reading begins then.
//   - A job is slurm/NUMBER when its epoch is 0 and group/NODE/NUMBER-EPOCH otherwise, on
//     one node alone. Without an epoch the caller says which; a group's number may come
//     again, so its name then ends with the time of its first reading. Job 0 is no job:
//     each of its processes is a workload of its own, and those without a number for other/NODE.
//   - Figures of several inputs about one node and time are one reading; of two that differ
//     it does not matter which came first.
//   - GPU use is a reading of a moment and is integrated between readings that are at most
//     an hour apart.
//
// sacct says what a job asked for and how it ended, and what it used in all: that is spread
// evenly over its time, and kept only for jobs that nobody measured.
//
// Units are SI. An [Importer] is used from one goroutine.
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/interop/sacct"
	"reckon/interop/sonar"
	"reckon/store"
	"reckon/store/tsdb"
)

// Store is where series go.
type Store interface {
	storage.Queryable
	ImportBlocks(ctx context.Context, h *tsdb.History) error
	Delete(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) error
}

// Options say what the input does not.
type Options struct {
	Store Store
	// Dir keeps what is known of earlier imports.
	Dir string
	// Site is the label of input that names no cluster, and of all input with Force.
	Site  string
	Force bool
	// Batch says that jobs without an epoch are those of the batch system.
	Batch bool
	// Fields and Zone are those of sacct's export; see package sacct.
	Fields []string
	Zone   *time.Location
	Clock  func() time.Time
}

// Bad is input that could not be read.
type Bad struct {
	File string
	Line int
	Err  string
}

// maxBad is how many are named; all are counted.
const maxBad = 100

// Result counts what came of an import. Records are processes in readings of sonar, and
// jobs of accounting. Each is counted once below.
type Result struct {
	Files, Records int
	Taken          int // records that were new
	Known          int // imported before, or given twice
	Measured       int // reckon itself measured that node at that time
	Waiting        int // jobs that had not started
	Heartbeats     int // signs of life of nodes on which nothing ran
	Refused        int // can not be: of the future, or more than the node can give; named in Bad

	Resumed   bool // an earlier import had been cut off, and was finished
	Workloads int
	Samples   int
	From, To  time.Time
	BadCount  int
	Bad       []Bad
	// Ranges are the stretches of time of which series changed, and Gone workloads that were
	// taken for such before older readings reported more, for the catalogue.
	Ranges [][2]time.Time
	Gone   []store.Run
}

// Importer takes input file by file.
type Importer struct {
	o      Options
	res    Result
	sites  map[string]*siteState
	reader *sonar.Reader

	file string
	rows int // records in the buffer
	buf  map[place]map[int64]*reading
	jobs []sacct.Job // waiting to be written
	last *sacct.Job  // waits for its steps
	out  *sink
	seen map[string]bool // workloads

	touched map[int64]bool // ranges, in units of touchedRange
}

type place struct{ site, node string }

const (
	softRows = 100_000
	jobBatch = 20_000
)

// New returns an importer.
func New(o Options) *Importer {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Importer{
		o: o, sites: map[string]*siteState{}, reader: sonar.NewReader(sonar.Options{}),
		buf: map[place]map[int64]*reading{}, out: newSink(), seen: map[string]bool{}, touched: map[int64]bool{},
	}
}

// Sonar takes one input of sonar. An error is the store's, the reader's or the context's.
func (im *Importer) Sonar(ctx context.Context, name string, in io.Reader) error {
	im.begin(name)
	in, err := im.open(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h := sonar.Handler{
		Sample:  im.sample,
		Sysinfo: im.sysinfo,
		Cluster: im.cluster,
		Job: func(j *sacct.Job) error {
			if j.Step != "" {
				if im.last == nil || im.last.Raw != j.Raw || im.last.Cluster != j.Cluster {
					im.bad(0, fmt.Errorf("step %s.%s without its job before it", j.ID, j.Step))
					return nil
				}
				im.last.AddStep(j)
				return nil
			}
			err := im.endJob(ctx)
			one := *j
			im.last = &one
			return err
		},
		Bad: im.bad,
	}
	err = im.damaged(im.reader.Read(in, &h))
	if err = errors.Join(err, im.endJob(ctx)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Sacct takes one export of sacct.
func (im *Importer) Sacct(ctx context.Context, name string, in io.Reader) error {
	im.begin(name)
	in, err := im.open(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = im.damaged(sacct.Read(in, sacct.Options{Fields: im.o.Fields, Zone: im.o.Zone}, func(j *sacct.Job) error { return im.job(ctx, j) }, im.bad))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Finish writes what is left and returns what came of everything. When the catalogue has
// taken it in, [Importer.Done] says so.
func (im *Importer) Finish(ctx context.Context) (Result, error) {
	if err := im.keep(); err != nil {
		return im.res, err
	}
	for _, site := range sortedKeys(im.sites) {
		if err := errors.Join(im.sites[site].rename(), im.settle(ctx, im.sites[site])); err != nil {
			return im.res, fmt.Errorf("%w (what was read is kept: the next import goes on with it)", err)
		}
	}
	if err := im.flushJobs(ctx); err != nil {
		return im.res, err
	}
	for _, s := range im.sites {
		if s.again {
			for t := s.pending.From.Unix(); t <= s.pending.To.Unix(); t += touchedRange {
				im.note(t)
			}
			im.res.Gone = append(im.res.Gone, s.pending.Gone...)
		}
		if err := s.save(); err != nil {
			return im.res, err
		}
	}
	im.res.Workloads = len(im.seen)
	im.res.Ranges = im.ranges()
	return im.res, nil
}

// Done says that the catalogue knows of the import.
func (im *Importer) Done() error {
	for _, s := range im.sites {
		if err := s.done(); err != nil {
			return err
		}
	}
	return nil
}

// damaged counts a damaged file among what can not be read.
func (im *Importer) damaged(err error) error {
	if errors.Is(err, ErrDamaged) {
		im.bad(0, err)
		return nil
	}
	return err
}

func (im *Importer) begin(name string) {
	im.file = name
	im.res.Files++
}

func (im *Importer) bad(line int, err error) {
	im.res.BadCount++
	if len(im.res.Bad) < maxBad {
		im.res.Bad = append(im.res.Bad, Bad{File: im.file, Line: line, Err: err.Error()})
	}
}

func (im *Importer) site(cluster string) string {
	if cluster == "" || im.o.Force {
		return im.o.Site
	}
	return cluster
}

// state returns what is known of a site.
func (im *Importer) state(site string) (*siteState, error) {
	if s := im.sites[site]; s != nil {
		return s, nil
	}
	s, err := loadSite(im.o.Dir, site)
	if err == nil {
		im.sites[site] = s
	}
	return s, err
}

// note remembers the extent of what was written.
func (im *Importer) note(t int64) {
	at := time.Unix(t, 0).UTC()
	if im.res.From.IsZero() || at.Before(im.res.From) {
		im.res.From = at
	}
	if at.After(im.res.To) {
		im.res.To = at
	}
	im.touched[t/touchedRange] = true
	im.out.from, im.out.to = min(im.out.from, t), max(im.out.to, t)
}

// touchedRange is the resolution of the time that got samples, in seconds.
const touchedRange = 6 * 3600

func (im *Importer) ranges() [][2]time.Time {
	var out [][2]time.Time
	for _, k := range sortedKeys(im.touched) {
		from, to := time.Unix(k*touchedRange, 0).UTC(), time.Unix((k+1)*touchedRange, 0).UTC()
		if n := len(out); n > 0 && out[n-1][1].Equal(from) {
			out[n-1][1] = to
			continue
		}
		out = append(out, [2]time.Time{from, to})
	}
	return out
}
