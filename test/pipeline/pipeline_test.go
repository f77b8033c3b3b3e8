// Package pipeline takes a simulated site through everything that stands between a machine and
// a sentence: agents read its nodes, the poller reads its batch system, the embedded store
// keeps the samples (or samples of imported accounting), the builder makes the catalogue, and answers and rules are asked. Tests of
// what is stated rest on it, so that they hold for what the pipeline can give, and not for figures
// that it never does.
//
// A [Site] is used from one goroutine.
package pipeline

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/access"
	"reckon/agent"
	"reckon/analysis/misuse"
	"reckon/answer"
	"reckon/answer/findings"
	"reckon/answer/invariant"
	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/internal/phrase/phrasetest"
	"reckon/interop/importer"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/query"
	"reckon/store"
	"reckon/store/tsdb"
	"reckon/web/client"
)

// Name is the name of the site.
const Name = "lab"

// Site is a simulated site at a time, with all that reckon has made of it.
type Site struct {
	Plan      *simulate.Site
	Catalogue *database.Catalogue
	Series    *tsdb.Store
	Now       time.Time
	Projects  map[string]string // accounts of owners without one

	Inconsistent invariant.Ledger // figures that were held back from answers

	tb     testing.TB
	views  *query.Views
	bounds *answer.Bounds
	jobs   *answer.Jobs
	live   *catalogue.Builder // of a site that advances
}

// Pace is how finely a site is gone through, and how long after its beginning the agents are
// installed.
type Pace struct{ Tick, Export, Installed time.Duration }

// Fine is as agents read by default, but for the tick; Coarse is enough for what lasts for
// hours.
var (
	Fine   = Pace{Tick: 5 * time.Second, Export: 15 * time.Second}
	Coarse = Pace{Tick: 30 * time.Second, Export: 2 * time.Minute}
)

// Run takes a site from its beginning up to a time after it.
func Run(tb testing.TB, c simulate.Config, until time.Duration, p Pace) *Site {
	tb.Helper()
	if c.From.IsZero() {
		c.From = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a Monday
	}
	plan, err := simulate.New(c)
	must(tb, err)
	s := open(tb)
	s.Plan, s.Now = plan, plan.From.Add(until)
	sink := simulation.NewHistory(s.Series, Name)
	fleet := simulation.New(simulation.Config{Site: plan, Slots: 1, Installed: plan.From.Add(p.Installed)})
	_, err = fleet.Run(tb.Context(), simulation.Stretch{Until: s.Now, Tick: p.Tick, Export: p.Export}, sink)
	must(tb, err)
	must(tb, sink.Flush(tb.Context()))
	s.build()
	return s
}

// Import takes text of sacct into an empty site at a time after it.
func Import(tb testing.TB, sacct string, now time.Time) *Site {
	tb.Helper()
	return ImportAll(tb, sacct, "", now)
}

// ImportAll takes text of sacct and of sonar into an empty site at a time after them.
func ImportAll(tb testing.TB, sacct, sonar string, now time.Time) *Site {
	tb.Helper()
	s := open(tb)
	s.Now = now
	b := s.builder()
	must(tb, b.Ready(tb.Context()))
	im := importer.New(importer.Options{Store: s.Series, Dir: filepath.Join(tb.TempDir(), "imports"), Site: Name,
		Clock: func() time.Time { return now }, Zone: time.UTC})
	if sonar != "" {
		must(tb, im.Sonar(tb.Context(), "sonar", strings.NewReader(sonar)))
	}
	must(tb, im.Sacct(tb.Context(), "sacct", strings.NewReader(sacct)))
	res, err := im.Finish(tb.Context())
	must(tb, err)
	_, err = b.History(tb.Context(), res.Ranges, res.Gone...)
	must(tb, err)
	must(tb, im.Done())
	s.build()
	return s
}

// Replay takes a recorded machine through all of its passes, one in every of them and the last one exported.
func Replay(tb testing.TB, path string, passes, every int) *Site {
	tb.Helper()
	a, _, err := agent.Open(agent.Config{Replay: path})
	must(tb, err)
	defer func() { _ = a.Close() }()
	s := open(tb)
	for i := range passes {
		must(tb, a.Step())
		if i%every != every-1 && i != passes-1 {
			continue
		}
		b := a.TakeExport()
		s.Now = b.Time
		must(tb, s.Series.Append(tb.Context(), map[string]string{"site": Name, "node": a.Node()}, b))
	}
	s.build()
	return s
}

// Empty is a site at a time without a past, for a test that writes its samples and calls [Site.Advance] as a server does.
func Empty(tb testing.TB, now time.Time) *Site {
	tb.Helper()
	s := open(tb)
	s.Now = now
	s.build()
	s.live = s.builder()
	return s
}

// Append keeps samples of a node, or without one.
func (s *Site) Append(node string, b *metric.Batch) error {
	identity := map[string]string{"site": Name}
	if node != "" {
		identity["node"] = node
	}
	return s.Series.Append(s.tb.Context(), identity, b)
}

// Advance brings the catalogue up to date.
func (s *Site) Advance() {
	s.tb.Helper()
	_, err := s.live.Advance(s.tb.Context())
	must(s.tb, err)
}

// open makes a site without a past.
func open(tb testing.TB) *Site {
	tb.Helper()
	s := &Site{tb: tb}
	var err error
	s.Series, err = tsdb.Open(tsdb.Options{Dir: filepath.Join(tb.TempDir(), "series"), Retention: -1,
		Clock: func() time.Time { return s.Now }})
	must(tb, err)
	tb.Cleanup(func() { _ = s.Series.Close() })
	s.Catalogue, err = database.Open(filepath.Join(tb.TempDir(), "catalogue.db"), nil)
	must(tb, err)
	tb.Cleanup(func() { _ = s.Catalogue.Close() })
	return s
}

func (s *Site) builder() *catalogue.Builder {
	return catalogue.NewBuilder(s.Series, s.Catalogue, catalogue.BuilderOptions{Clock: func() time.Time { return s.Now }})
}

// build makes the catalogue and what answers from it.
func (s *Site) build() {
	s.tb.Helper()
	clock := func() time.Time { return s.Now }
	_, err := s.builder().Advance(s.tb.Context())
	must(s.tb, err)
	s.views = query.New(s.Series, query.Options{})
	s.bounds = &answer.Bounds{Rollups: s.Catalogue, Views: s.views, Ledger: &s.Inconsistent, Clock: clock}
	s.jobs = &answer.Jobs{Catalogue: s.Catalogue, Steps: s.Catalogue, Views: s.views, Bounds: s.bounds, Clock: clock}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Row is the row of a workload by the name of its job.
func (s *Site) Row(name string) store.Workload {
	s.tb.Helper()
	rows, _, err := s.Catalogue.Workloads(s.tb.Context(), store.Filter{Name: name})
	must(s.tb, err)
	if len(rows) != 1 {
		s.tb.Fatalf("%d rows of %s", len(rows), name)
	}
	return rows[0]
}

// Rows are all rows of the catalogue.
func (s *Site) Rows() []store.Workload {
	s.tb.Helper()
	rows, _, err := s.Catalogue.Workloads(s.tb.Context(), store.Filter{})
	must(s.tb, err)
	return rows
}

// Job is the answer about a job, by its name, to a viewer who may see all.
func (s *Site) Job(name string) client.WorkloadDetail {
	s.tb.Helper()
	return s.Detail(s.Workloads(client.Filter{IDs: []string{s.Row(name).ID}, Sort: "-start", Limit: 1})[0])
}

func (s *Site) viewer() context.Context {
	return access.With(s.tb.Context(), access.Viewer{Name: "root", Role: access.Admin})
}

// Workloads are the answer to a filter.
func (s *Site) Workloads(f client.Filter) []client.Workload {
	s.tb.Helper()
	list, err := s.jobs.Workloads(s.viewer(), f)
	must(s.tb, err)
	return list.Workloads
}

// Detail is the answer about one run.
func (s *Site) Detail(w client.Workload) client.WorkloadDetail {
	s.tb.Helper()
	d, err := s.jobs.Workload(s.viewer(), w, client.Range{})
	must(s.tb, err)
	return d
}

// Usage is the answer about history.
func (s *Site) Usage(q client.UsageQuery) client.UsageList {
	s.tb.Helper()
	u := &answer.Usage{Rollups: s.Catalogue, Catalogue: s.Catalogue, Runs: s.Catalogue, Projects: s.Projects, Bounds: s.bounds,
		Clock: func() time.Time { return s.Now }}
	out, err := u.Usage(s.tb.Context(), q)
	must(s.tb, err)
	return out
}

// Nodes are the answer about nodes.
func (s *Site) Nodes() []client.Node {
	s.tb.Helper()
	clock := func() time.Time { return s.Now }
	n := &answer.Nodes{Views: s.views, Bounds: s.bounds, Clock: clock,
		Past: &answer.NodeHistory{Rollups: s.Catalogue, Waits: s.Catalogue, Views: s.views, Bounds: s.bounds, Clock: clock}}
	out, err := n.Nodes(s.tb.Context())
	must(s.tb, err)
	return out.Nodes
}

// Said are the sentences about a job: a line for each verdict and each reason of the advice.
func (s *Site) Said(name string) string {
	s.tb.Helper()
	d := s.Job(name)
	var out []string
	for _, v := range d.Verdicts {
		out = append(out, v.Severity+" "+v.Kind+": "+v.Text)
	}
	if d.Advice != nil {
		for _, why := range d.Advice.Why {
			out = append(out, "advice: "+why)
		}
	}
	return strings.Join(out, "\n")
}

// Findings are the findings of the rules by a policy, empty for the default, in the last day.
func (s *Site) Findings(policy string) []misuse.Finding {
	s.tb.Helper()
	p, err := findings.ReadPolicy([]byte(policy))
	must(s.tb, err)
	e := &findings.Evaluator{Series: s.Series, Facts: s.Catalogue, Hold: s.bounds.Runs, Inconsistent: &s.Inconsistent}
	found, err := e.Evaluate(s.tb.Context(), p, s.Now.Add(-24*time.Hour), s.Now)
	must(s.tb, err)
	return s.complete(found)
}

// Imported are the findings of the rules in the past since a time, known from accounting alone.
func (s *Site) Imported(policy string, since time.Time) []misuse.Finding {
	s.tb.Helper()
	p, err := findings.ReadPolicy([]byte(policy))
	must(s.tb, err)
	found, err := (&findings.Evaluator{Series: s.Series, Facts: s.Catalogue}).Imported(s.tb.Context(), p, since, s.Now)
	must(s.tb, err)
	return s.complete(found)
}

// complete holds that the sentences of findings have all figures that they show.
func (s *Site) complete(found []misuse.Finding) []misuse.Finding {
	s.tb.Helper()
	for i := range found {
		if loose := phrasetest.Figures(found[i].Text, found[i].Values, "where", "names", "node", "step", "like"); loose != "" {
			s.tb.Errorf("%s: %s", found[i].Rule, loose)
		}
	}
	return found
}

// Owners are the answer about findings by owner, after they were kept by a policy, empty for the default.
func (s *Site) Owners(policy string) []client.FindingOwner {
	s.tb.Helper()
	k := &findings.Keeper{Evaluator: &findings.Evaluator{Series: s.Series, Facts: s.Catalogue}, Store: s.Catalogue, Policy: []byte(policy),
		Clock: func() time.Time { return s.Now }}
	must(s.tb, k.Look(s.tb.Context()))
	list, err := (&answer.Findings{Keeper: k}).Findings(s.tb.Context(), client.FindingFilter{Limit: 3})
	must(s.tb, err)
	return list.Owners
}

// Mute keeps the findings of the last day, and mutes the findings of an owner.
func (s *Site) Mute(owner, reason string, until time.Time) {
	s.tb.Helper()
	k := &findings.Keeper{Evaluator: &findings.Evaluator{Series: s.Series, Facts: s.Catalogue}, Store: s.Catalogue,
		Clock: func() time.Time { return s.Now }}
	must(s.tb, k.Look(s.tb.Context()))
	list, _, err := s.Catalogue.Findings(s.tb.Context(), store.FindingFilter{Owners: []string{owner}})
	must(s.tb, err)
	if len(list) == 0 {
		s.tb.Fatalf("no finding of %s to mute", owner)
	}
	for i := range list {
		_, err := k.Mute(s.tb.Context(), list[i].ID, reason, until)
		must(s.tb, err)
	}
}

// Move is the answer about who should move, to a viewer who may see all.
func (s *Site) Move(q client.MoveQuery, shapes string) client.MoveList {
	s.tb.Helper()
	q.Shapes = shapes
	return s.MoveFor(access.From(s.viewer()), q)
}

// MoveFor is the answer about who should move to a viewer.
func (s *Site) MoveFor(v access.Viewer, q client.MoveQuery) client.MoveList {
	s.tb.Helper()
	clock := func() time.Time { return s.Now }
	m := &answer.Moves{Catalogue: s.Catalogue, Rollups: s.Catalogue, Partitions: &answer.Partitions{Views: s.views, Clock: clock},
		Views:    s.views,
		Findings: s.Catalogue, Bounds: s.bounds, Clock: clock}
	out, err := m.Move(access.With(s.tb.Context(), v), q)
	must(s.tb, err)
	return out
}

// Short writes findings as rule, part, owner and name of the job, sorted.
func (s *Site) Short(found []misuse.Finding) []string {
	names := map[string]string{}
	rows, _, err := s.Catalogue.Workloads(s.tb.Context(), store.Filter{})
	must(s.tb, err)
	for _, r := range rows {
		names[r.ID] = r.Name
	}
	var out []string
	for _, f := range found {
		out = append(out, strings.TrimSpace(strings.Join([]string{f.Rule, f.Part, f.Owner, names[f.Workload]}, " ")))
	}
	slices.Sort(out)
	return out
}
