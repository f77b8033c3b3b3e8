package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/internal/term"
	"reckon/web/client"
)

var (
	wholeID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:slurm/)?\d+$`)
	}) // an array, or a single job
	tasksID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:slurm/)?\d+_\[[\d,%:-]+\]$`)
	}) // some tasks of an array
	oneOfID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(slurm/)?(\d+)[_+]\d+$`)
	}) // a task or a component
)

// findMembers returns the array or heterogeneous job that an id denotes; false for a single job.
func findMembers(ctx context.Context, c *client.Client, o jobOptions) (client.Members, bool, error) {
	some := tasksID().MatchString(o.id)
	whole := o.mail || o.trace.value != "" || o.start != "" || o.from != "" || o.to != "" || o.step != "" || o.by.value != ""
	switch {
	case some && whole:
		return client.Members{}, false,
			&usageError{
				fmt.Errorf("%s is several jobs; --email-text, --trace, --by, --start, --from, --to and --step are of one", o.id)}
	case !some && (whole || !wholeID().MatchString(o.id)):
		return client.Members{}, false, nil
	}
	m, err := c.Members(ctx, o.id, o.site)
	var refused *client.APIError
	if !some && errors.As(err, &refused) && refused.Status == 404 {
		return m, false, nil // a single job, or an older server
	}
	return m, err == nil, err
}

func writeMembers(g *globals, o jobOptions, members client.Members, now time.Time) error {
	g.reportMissing(members.Missing)
	switch o.format.value {
	case "json":
		return writeJSON(g.stdout, members)
	case "csv":
		return client.WriteCSV(g.stdout, members.Members)
	}
	return printMembers(g.screen(), members, now)
}

// printMembers prints an array or a heterogeneous job as a whole.
func printMembers(s term.Screen, m client.Members, now time.Time) error {
	p := &page{Screen: s}
	word := map[string]string{"array": "task", "heterogeneous": "component"}[m.Kind]
	var states []string
	all := 0
	for _, x := range m.States {
		all += x.Count
		states = append(states, fmt.Sprintf("%d %s", x.Count, strings.ReplaceAll(term.Safe(x.State), "_", " ")))
	}
	if m.Waiting && all == len(m.Members) {
		states = append(states, "the rest waits")
	}
	count := fmt.Sprintf("%d %ss", all, word)
	if all == 1 {
		count = "1 " + word
	}
	p.printWrapped(2, "%s  %s: %s", p.Paint(term.Bold, strings.TrimSpace(term.Safe(m.ID)+"  "+term.Safe(m.Name))), count,
		strings.Join(states, ", "))
	named := func(name, value string) string {
		if value == "" {
			return ""
		}
		return name + " " + term.Safe(value)
	}
	p.addFact("Owner", term.Safe(m.Owner), named("account", m.Account), named("partition", m.Partition), named("site", m.Site))
	clock := func(word string, t *time.Time) string {
		if t == nil {
			return ""
		}
		return word + " " + term.Clock(*t, now)
	}
	p.addFact("Time", clock("submitted", m.Submit), clock("the first started", m.Start), clock("the last ended", m.End))
	p.printf("")
	sums := &m.Sums
	least := ""
	if n := len(m.Members); sums.Measured < n {
		least = fmt.Sprintf("(of %d of %d)", sums.Measured, n)
	}
	share := ""
	if sums.CPUShare != nil {
		share = term.Percent(sums.CPUShare) + " of the core time given"
	}
	p.addFact("CPU time", term.Seconds(sums.CPUSeconds), least, share)
	p.addFact("Given", "core time "+term.Seconds(sums.CoreSeconds), "GPU time "+term.Seconds(sums.GPUHeldSeconds))
	p.addFact("Wall", "all together "+term.Seconds(&sums.WallSeconds), "the longest "+term.Seconds(&sums.LongestSeconds))
	p.addFact("Memory", "highest peak of one "+term.Bytes(sums.MemoryPeakBytes))
	p.addFact("Storage", "read "+term.Bytes(sums.ReadBytes), "written "+term.Bytes(sums.WriteBytes))
	p.addFact("GPU", term.Seconds(sums.GPUSeconds))
	p.addFact("Energy", term.Energy(sums.EnergyJoules))
	p.printVerdicts(m.Verdicts)
	if err := p.printMemberTable(m, word, now); err != nil {
		return err
	}
	_, err := fmt.Fprint(s, p.b.String())
	return err
}

// printMemberTable lists the members; if there are very many, those that failed and those with the highest use.
func (p *page) printMemberTable(m client.Members, word string, now time.Time) error {
	shown := slices.Clone(m.Members)
	if len(shown) > maxListed {
		well := func(w *client.Workload) bool {
			return w.State == "" || w.State == "completed" || w.State == "running" || w.State == "pending"
		}
		slices.SortStableFunc(shown, func(a, b client.Workload) int {
			return cmp.Or(compareBool(well(&a), well(&b)), cmp.Compare(orZero(b.CPUSeconds), orZero(a.CPUSeconds)))
		})
		shown = shown[:maxListed]
	}
	t := term.TableOf(strings.ToUpper(word) + "|STATE|START|WALL:r|CPU TIME:r|CORES:r|MEM NEEDED:r|NODES:s8")
	marks := marked{}
	for i := range shown {
		w := &shown[i]
		cores, _ := w.GivenCores()
		t.Add(strings.TrimPrefix(w.ID, "slurm/"), formatState(*w), formatStart(*w, now), term.Seconds(&w.WallSeconds),
			term.Seconds(w.CPUSeconds),
			term.Cores(cores), marks.formatMemoryCell(w), strings.Join(w.Nodes, ","))
	}
	if err := p.printTable(t); err != nil {
		return err
	}
	p.addFact("Marks", marks.legend())
	if more := len(m.Members) - len(shown); more > 0 {
		p.printWrapped(0, "and %d more: shown are those that did not end well and those that used most; --format csv lists all", more)
	}
	return nil
}

// wholeJobID returns the id of the whole job that a workload is a member of.
func wholeJobID(id string) string {
	of := oneOfID().FindStringSubmatch(id)
	if of == nil || of[1] == "" {
		return ""
	}
	if strings.Contains(id, "+") {
		return "a component of slurm/" + of[2] + ": `reckon job " + of[2] + "` shows all of them"
	}
	return "a task of slurm/" + of[2] + ": `reckon job " + of[2] + "` shows all of them"
}
