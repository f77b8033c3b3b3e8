package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// External figures: the agent reads them, resolves their workloads and adds labels. See
// sensor.OwnSource for figures that it reads itself, and pushed.go for figures sent to it.

var (
	ownInput = metric.NewDesc("reckon_own_input_up", metric.Gauge, metric.None, []string{"sensor", "input", "reason"},
		"1 if every figure of an own file or address was taken, else 0. The reason names what was not taken, and why.")
	ownSeries = metric.NewDesc("reckon_own_series", metric.Gauge, metric.None, []string{"sensor"},
		"Series with figures of others that the last export carried.")
	ownPushes = metric.NewDesc("reckon_own_pushes_total", metric.Counter, metric.None, []string{"result"},
		"Requests of `reckon push` and the like, by result: taken or refused.")
)

// Limits on external figures.
const (
	maxWorkloadSeries = 200    // series of one workload, unless the configuration states otherwise
	maxOwnSeries      = 20_000 // series of all
	maxReadingWait    = time.Second
)

// externalFigures is the state of the figures that come from other programs.
type externalFigures struct {
	readers []*ownReader
	names   map[string]bool // of metrics that sensors of ours give
	limit   int             // series of one workload
	rows    map[*metric.Series]*ownFigure
	descs   map[string]*metric.Desc // by name and labels
	cache   metric.Cache
	status  metric.Cache
	seen    map[*metric.Series]struct{} // series already in this export
	counts  map[figureSubject]int
	origins map[*sensor.Origin]resolvedOrigin
	inputs  []OwnInput
	reasons map[string]string // last reason of an input
	round   uint64
	pushed  map[pushKey]*pushedFigure
	pushes  [2]uint64                 // taken, refused
	kept    map[string]*requestBucket // of process groups that sent figures, by user
}

// figureSubject identifies the object of a figure: a part of a workload, an owner, or, if empty, the machine.
type figureSubject struct {
	id          workload.ID
	part, owner string
}

// withoutPart returns the subject without the part, because limits apply to workloads.
func (w figureSubject) withoutPart() figureSubject { return figureSubject{w.id, "", w.owner} }

// resolvedOrigin is the subject of an origin, or the reason why there is none.
type resolvedOrigin struct {
	subject figureSubject
	trusted bool
	later   bool // nothing is exported of the workload yet
	err     error
}

// ownReader is a sensor that reads figures of other programs.
type ownReader struct {
	unit   *sensorState
	source sensor.OwnSource
	pass   sensor.OwnPass
	done   chan struct{}
	busy   bool
	bad    []refusedLines // by input
}

// refusedLines counts the refused lines of an input.
type refusedLines struct {
	n     int
	first error
}

// ownFigure is a series from another program, with the series to export or the reason for refusing it.
type ownFigure struct {
	subject figureSubject
	final   *metric.Series
	err     error
	round   uint64
}

// OwnInput is the state of a file or address with external figures.
type OwnInput struct {
	Sensor, Name string
	Reason       string // why nothing, or not everything, was taken; empty when all is well
}

// openOwnReaders finds the sensors that read figures of other programs.
func (a *Agent) openOwnReaders(limit int) {
	o := &a.own
	*o = externalFigures{
		names: map[string]bool{}, limit: limit, rows: map[*metric.Series]*ownFigure{}, descs: map[string]*metric.Desc{},
		seen: map[*metric.Series]struct{}{}, counts: map[figureSubject]int{}, origins: map[*sensor.Origin]resolvedOrigin{},
		reasons: map[string]string{}, pushed: map[pushKey]*pushedFigure{}, kept: map[string]*requestBucket{},
	}
	if o.limit <= 0 {
		o.limit = maxWorkloadSeries
	}
	for _, u := range a.sensors {
		if u.sensor == nil {
			continue
		}
		for _, d := range u.sensor.Descs() {
			o.names[d.Name] = true
		}
		if s, ok := u.sensor.(sensor.OwnSource); ok {
			o.readers = append(o.readers, &ownReader{unit: u, source: s, done: make(chan struct{}, 1)})
		}
	}
}

// exportOwn appends the external figures. It runs after the export of the ledger, because the ledger selects the
// workloads that have series.
func (a *Agent) exportOwn(b *metric.Batch) {
	o := &a.own
	if len(o.readers) == 0 && len(o.pushed) == 0 && o.pushes == [2]uint64{} {
		return
	}
	o.round++
	clear(o.seen)
	clear(o.counts)
	clear(o.origins)
	var inputs []OwnInput
	for _, r := range o.readers {
		from := len(b.Samples)
		if !r.startReading() {
			a.recordReading(r.unit, errors.New("reading takes long: does a file system hang?"))
			continue
		}
		r.bad = slices.Grow(r.bad[:0], len(r.pass.Inputs))[:len(r.pass.Inputs)]
		clear(r.bad)
		for i := range r.pass.Samples {
			s := &r.pass.Samples[i]
			if s.Origin == nil {
				b.Add(s.Series, s.Value)
				continue
			}
			if err := a.addOwnFigure(b, s); err != nil {
				bad := &r.bad[s.Input]
				if bad.n++; bad.first == nil {
					bad.first = err
				}
			}
		}
		b.Add(o.status.Get(ownSeries, r.source.Name()), float64(len(b.Samples)-from))
		for i := range r.pass.Inputs {
			inputs = append(inputs, a.inputState(r, i, b))
		}
	}
	a.exportPushed(b)
	for s, row := range o.rows {
		if row.round != o.round {
			delete(o.rows, s)
		}
	}
	if len(o.descs) > maxOwnSeries {
		clear(o.descs)
		clear(o.rows)
	}
	o.cache.Sweep()
	o.status.Sweep()
	a.mu.Lock()
	o.inputs = inputs
	a.mu.Unlock()
}

// startReading starts a reading of the source and waits for a limited time.
func (r *ownReader) startReading() bool {
	if r.busy {
		select {
		case <-r.done:
			r.busy = false
		default:
			return false
		}
	}
	r.pass.Reset()
	r.busy = true
	go func() {
		r.source.ReadOwn(&r.pass)
		r.done <- struct{}{}
	}()
	patience := time.NewTimer(maxReadingWait)
	defer patience.Stop()
	select {
	case <-r.done:
		r.busy = false
		return true
	case <-patience.C:
		return false
	}
}

// isReading reports whether a sensor of external figures is still reading in the background. The agent must not use such
// a sensor.
func (o *externalFigures) isReading(u *sensorState) bool {
	for _, r := range o.readers {
		if r.unit == u {
			return r.busy
		}
	}
	return false
}

// inputState returns the state of an input and logs changes.
func (a *Agent) inputState(r *ownReader, i int, b *metric.Batch) OwnInput {
	in, bad := &r.pass.Inputs[i], &r.bad[i]
	up, reason := 1.0, ""
	switch {
	case in.Err != nil:
		up, reason = 0, shortenReason(in.Err)
	case bad.first != nil:
		up, reason = 0, shortenReason(fmt.Errorf("%d series were not taken: %w", bad.n, bad.first))
	}
	name := strings.ToValidUTF8(in.Name, "?")
	b.Add(a.own.status.Get(ownInput, r.source.Name(), name, reason), up)
	key := r.source.Name() + " " + name
	if was, known := a.own.reasons[key]; was != reason || !known && reason != "" {
		if len(a.own.reasons) > 10_000 {
			clear(a.own.reasons)
		}
		a.own.reasons[key] = reason
		if reason != "" {
			a.log.Warn("own metrics are not taken", "sensor", r.source.Name(), "input", name, "reason", reason)
		} else {
			a.log.Info("own metrics are taken again", "sensor", r.source.Name(), "input", name)
		}
	}
	return OwnInput{Sensor: r.source.Name(), Name: name, Reason: reason}
}

// addOwnFigure appends one figure under the name of its workload.
func (a *Agent) addOwnFigure(b *metric.Batch, s *sensor.OwnSample) error {
	o := &a.own
	v, known := o.origins[s.Origin]
	if !known {
		v = a.resolveOwner(s.Origin)
		o.origins[s.Origin] = v
	}
	if v.err != nil {
		return v.err
	}
	row := o.rows[s.Series]
	if row == nil || row.subject != v.subject {
		row = &ownFigure{subject: v.subject, err: o.checkName(s.Series.Desc.Name, v.trusted)}
		o.rows[s.Series] = row
	}
	row.round = o.round
	switch {
	case row.err != nil:
		return row.err
	case v.later:
		return nil
	}
	return o.addFigure(b, row, s.Series, s.Value)
}

// addFigure appends a figure, if it is the first with its name and labels and no limit is exceeded.
func (o *externalFigures) addFigure(b *metric.Batch, row *ownFigure, raw *metric.Series, value float64) error {
	if n := o.counts[row.subject.withoutPart()]; row.subject != (figureSubject{}) && n >= o.limit {
		return fmt.Errorf("%s has %d series of its own already; leave labels out, or allow more with max_series_per_workload",
			row.subject.displayName(), n)
	}
	if len(o.seen) >= maxOwnSeries {
		return fmt.Errorf("there are %d series of others on this node already", maxOwnSeries)
	}
	if row.final == nil {
		row.final = o.labelledSeries(raw, row.subject)
	} else { // the same pointer for all senders of the same series
		row.final = o.cache.Get(row.final.Desc, row.final.Values...)
	}
	if _, twice := o.seen[row.final]; twice {
		return fmt.Errorf("%s is there twice", raw.Desc.Name)
	}
	o.seen[row.final] = struct{}{}
	o.counts[row.subject.withoutPart()]++
	b.Add(row.final, value)
	return nil
}

// displayName returns the display name.
func (w figureSubject) displayName() string {
	if w.id != "" {
		return string(w.id)
	}
	return "the user " + w.owner
}

// labelledSeries returns raw with the labels of its workload.
func (o *externalFigures) labelledSeries(raw *metric.Series, w figureSubject) *metric.Series {
	labels, values := make([]string, 0, 12), make([]string, 0, 12)
	add := func(name, value string) {
		if value != "" {
			labels, values = append(labels, name), append(values, value)
		}
	}
	if w.id != "" {
		add("workload", string(w.id))
		add("kind", string(w.id.Kind()))
		add("part", w.part)
	}
	add("owner", w.owner)
	labels, values = append(labels, raw.Desc.Labels...), append(values, raw.Values...)
	key := raw.Desc.Name + "\xff" + strings.Join(labels, "\xff")
	d := o.descs[key]
	if d == nil {
		help := cmp.Or(raw.Desc.Help, "Who gives this figure did not describe it.")
		d = &metric.Desc{Name: raw.Desc.Name, Help: help, Kind: raw.Desc.Kind, Unit: raw.Desc.Unit, Labels: labels}
		o.descs[key] = d
	}
	return o.cache.Get(d, values...)
}

// checkName returns an error if an external metric may not have the name.
func (o *externalFigures) checkName(name string, trusted bool) error {
	if o.names[name] && !strings.HasPrefix(name, "reckon_") {
		return fmt.Errorf("%s: the agent measures that itself; choose another name, or drop it", name)
	}
	return metric.CheckOwnName(name, trusted)
}

// Inputs returns the state of every file and address with external figures, as of the last export.
func (a *Agent) Inputs() []OwnInput {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.own.inputs)
}
