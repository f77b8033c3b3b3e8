// Package importer converts the output of sonar and the accounting of batch systems to the series that reckon would have measured, so
// that every query over series includes it.
//
// Every series has the label source, such as sonar or sacct, in addition to the labels of a measured one. Imported data counts once, in
// whatever order it arrives: readings are stored unchanged in a journal below the data directory, imports/SITE, and series are built from
// it in order of time. If readings are older than others of their node, the later series are rebuilt until the result no longer changes.
// Data that reckon itself measured takes precedence. An interrupted import is completed by the next one.
//
// The meaning of sonar's data (see package sonar) and its conversion:
//   - The CPU time of a process includes the CPU time of children it has waited for. The use of an
//     ended process is therefore not counted again when its parent, or the nearest
//     living ancestor, has grown by it.
//   - A mean over the lifetime of a process does not show when time was used, so releases that
//     wrote nothing else have no CPU time here. Together with the CPU time it gives the age of the
//     process: a job that is older than its first reading starts at that age.
//   - A job is slurm/NUMBER if its epoch is 0 and group/NODE/NUMBER-EPOCH otherwise, on
//     one node only. Without an epoch the caller decides; a group's number may be
//     reused, so its name then ends with the time of its first reading. Job 0 is not a job:
//     each of its processes is a separate workload, and those without a number are other/NODE.
//   - Data from several inputs about one node and time is one reading; if they differ,
//     their order does not matter.
//   - GPU use is sampled, and integrated between readings that are at most
//     an hour apart.
//
// The accounting of Slurm and of the batch systems of package batchlog provides the request, the end and the total use of a job: the use
// is spread evenly over its time, and kept only for jobs without measurements.
//
// Units are SI. An [Importer] is not safe for concurrent use.
package importer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"regexp"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/figure/wire"
	"reckon/interop/sacct"
	"reckon/interop/sonar"
	"reckon/store"
	"reckon/store/tsdb"
)

// Store is the destination of the series.
type Store interface {
	storage.Queryable
	ImportBlocks(ctx context.Context, h *tsdb.History) error
	Delete(ctx context.Context, mint, maxt int64, ms ...*labels.Matcher) error
}

// Options hold information that the input lacks.
type Options struct {
	Store Store
	// Dir holds the state of earlier imports.
	Dir string
	// Site is the label of input without a cluster name, and of all input with Force.
	Site  string
	Force bool
	// Batch assigns jobs without an epoch to the batch system.
	Batch bool
	// Fields and Zone describe sacct's export; see package sacct.
	Fields []string
	Zone   *time.Location
	Clock  func() time.Time
}

// maxBad is the number of different errors that are listed; all are counted.
const maxBad = 100

// Result is the result of an import, with the data that the catalogue needs.
type Result struct {
	wire.ImportResult
	// Ranges are the time ranges in which series changed, and Gone the workloads that no longer
	// exist after older readings were imported, for the catalogue.
	Ranges [][2]time.Time
	Gone   []store.Run
}

// Note extends the time range of the imported data.
func (r *Result) Note(from, to time.Time) {
	if r.From == nil || from.Before(*r.From) {
		r.From = &from
	}
	if r.To == nil || to.After(*r.To) {
		r.To = &to
	}
}

// Importer imports input file by file.
type Importer struct {
	o      Options
	res    Result
	sites  map[string]*siteState
	reader *sonar.Reader

	file string
	bads map[string]int // places in res.Bad by text
	rows int            // records in the buffer
	// hollow are bad records that were read, and have nothing to take: errors that sonar reports, steps without their job.
	hollow int
	buf    map[nodeKey]map[int64]*reading
	jobs   []sacct.Job // to be written
	last   *sacct.Job  // waits for its steps
	out    *sink
	seen   map[uint64]struct{} // workloads, by hash
	seed   maphash.Seed

	touched map[int64]bool // ranges, in units of touchedRange
	builder labels.ScratchBuilder
}

type nodeKey struct{ site, node string }

const (
	softRows = 100_000
	jobBatch = 8_000
)

// New returns an importer.
func New(o Options) *Importer {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Importer{
		o: o, sites: map[string]*siteState{}, reader: sonar.NewReader(sonar.Options{}),
		bads: map[string]int{}, res: Result{ImportResult: wire.ImportResult{Bad: []wire.ImportBad{}}},
		buf: map[nodeKey]map[int64]*reading{},
		out: newSink(), seen: map[uint64]struct{}{}, seed: maphash.MakeSeed(), touched: map[int64]bool{},
	}
}

// Sonar imports one input of sonar. An error comes from the store, the reader or the context.
func (im *Importer) Sonar(ctx context.Context, name string, in io.Reader) error {
	defer im.beginFile(name)()
	in, err := im.open(ctx, in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	h := sonar.Handler{
		Sample:  im.addSample,
		Sysinfo: im.addSysinfo,
		Cluster: im.addCluster,
		Job: func(j *sacct.Job) error {
			if j.Step != "" {
				if im.last == nil || im.last.Raw != j.Raw || im.last.Cluster != j.Cluster {
					im.hollow++
					im.addError(0, fmt.Errorf("step %s.%s without its job before it", j.ID, j.Step))
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
		Bad: im.addError,
	}
	err = im.countDamaged(im.reader.Read(in, &h))
	if err = errors.Join(err, im.endJob(ctx)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Sacct imports one export of sacct.
func (im *Importer) Sacct(ctx context.Context, name string, in io.Reader) error {
	defer im.beginFile(name)()
	br, err := im.open(ctx, in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if head, _ := br.Peek(1); len(head) == 1 && head[0] == '{' {
		return im.countDamaged(im.sacctJSON(ctx, br))
	}
	err = im.countDamaged(sacct.Read(br, sacct.Options{Fields: im.o.Fields, Zone: im.o.Zone}, func(j *sacct.Job) error {
		return im.readJob(ctx, j)
	},
		im.addError))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Finish writes the remaining data and returns the overall result. Once the catalogue has processed it, call [Importer.Done].
func (im *Importer) Finish(ctx context.Context) (Result, error) {
	if err := im.flushBuffer(); err != nil {
		return im.res, err
	}
	for _, site := range sortedKeys(im.sites) {
		if err := errors.Join(im.sites[site].rebuildRenamed(), im.buildSeries(ctx, im.sites[site])); err != nil {
			return im.res, fmt.Errorf("%w (data read so far is kept: the next import resumes there)", err)
		}
	}
	if err := im.flushJobs(ctx); err != nil {
		return im.res, err
	}
	for _, s := range im.sites {
		if s.again {
			im.noteSpan(s.pending.From.Unix(), s.pending.To.Unix())
			im.res.Gone = append(im.res.Gone, s.pending.Gone...)
		}
		if err := s.saveFile(); err != nil {
			return im.res, err
		}
	}
	im.res.Workloads, im.seen = len(im.seen), nil // the catalogue, which comes next, needs the memory
	im.res.Ranges = im.ranges()
	return im.res, nil
}

// Done records that the catalogue includes the import.
func (im *Importer) Done() error {
	for _, s := range im.sites {
		if err := s.finishImport(); err != nil {
			return err
		}
	}
	return nil
}

// countDamaged counts a damaged file as unreadable input.
func (im *Importer) countDamaged(err error) error {
	if errors.Is(err, ErrDamaged) {
		im.addError(0, err)
		return nil
	}
	return err
}

// beginFile counts a file. The returned function counts whether a record of it was read.
func (im *Importer) beginFile(name string) func() {
	im.file = name
	im.res.Files++
	records, bad := im.res.Records, im.res.BadCount-im.hollow
	return func() {
		if im.res.Records == records && im.res.BadCount-im.hollow > bad {
			im.res.Unread++
		}
	}
}

func (im *Importer) addError(line int, err error) {
	im.res.BadCount++
	if errors.Is(err, sonar.ErrReported) {
		im.hollow++
	}
	im.listError(line, err)
}

// badField counts an unreadable field. The record is imported without the field.
func (im *Importer) badField(line int, err error) {
	im.res.BadFields++
	im.listError(line, fmt.Errorf("%w; the rest of the record is taken", err))
}

// varyingParts matches the parts in which errors of one kind differ: jobs and steps, quoted fields, and numbers.
var varyingParts = regexp.MustCompile(`(job|step) \S+|"(\\.|[^"\\])*"|\d+`)

func (im *Importer) listError(line int, err error) {
	kind := varyingParts.ReplaceAllString(err.Error(), "0")
	if at, ok := im.bads[kind]; ok {
		im.res.Bad[at].Count++
	} else if len(im.res.Bad) < maxBad {
		im.bads[kind] = len(im.res.Bad)
		im.res.Bad = append(im.res.Bad, wire.ImportBad{File: im.file, Line: line, Error: err.Error(), Count: 1})
	}
}

func (im *Importer) siteOf(cluster string) string {
	if cluster == "" || im.o.Force {
		return im.o.Site
	}
	return cluster
}

// loadState returns the import state of a site.
func (im *Importer) loadState(site string) (*siteState, error) {
	if s := im.sites[site]; s != nil {
		return s, nil
	}
	s, err := loadSite(im.o.Dir, site)
	if err == nil {
		im.sites[site] = s
	}
	return s, err
}

func (im *Importer) noteSeen(site, id string) {
	im.seen[maphash.Comparable(im.seed, [2]string{site, id})] = struct{}{}
}

// extendRange extends the time range of the written data.
func (im *Importer) extendRange(t int64) {
	at := time.Unix(t, 0).UTC()
	im.res.Note(at, at)
	im.touched[t/touchedRange] = true
	im.out.from, im.out.to = min(im.out.from, t), max(im.out.to, t)
}

// noteSpan records a time range of the written data.
func (im *Importer) noteSpan(from, to int64) {
	for t := from; t < to; t += touchedRange {
		im.extendRange(t)
	}
	im.extendRange(to)
}

// touchedRange is the resolution of the time ranges with new samples, in seconds.
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
