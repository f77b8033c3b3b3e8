package catalogue

import (
	"cmp"
	"slices"

	"reckon/figure"
	"reckon/store"
)

// addStarted adds a workload that started in the hours of the pass, with the time that it waited. The whole wait counts
// in the hour of the start, because it is known only then.
func (p *pass) addStarted(w *store.Workload) {
	at := w.Start.UnixMilli()
	if at < p.from {
		return
	}
	k := workloadKey{w.Site, w.ID}
	p.learnRun(k, w)
	u := p.newUseRow(useCell{workloadKey: k, hour: p.edges[p.stretchIndex(at)]}, p.facts[k])
	u.Started = new(1.0)
	if !w.Submit.IsZero() && !w.Start.Before(w.Submit) {
		wait := w.Start.Sub(w.Submit).Seconds()
		u.StartedWithSubmit, u.WaitSeconds = new(1.0), &wait
		if w.RequestCores != nil {
			u.WaitCoreSeconds = new(wait * *w.RequestCores)
		}
	}
	p.starting = append(p.starting, u)
}

// mergeUse returns the sum of the rows of one hour and group, in a fixed order.
func mergeUse(rows []store.Use) []store.Use {
	type group struct {
		at                                             int64
		site, kind, owner, account, partition, command string
	}
	at, out := make(map[group]int, len(rows)), slices.Grow([]store.Use(nil), len(rows))
	for i := range rows {
		u := &rows[i]
		g := group{u.At.UnixMilli(), u.Site, u.Kind, u.Owner, u.Account, u.Partition, u.Command}
		if j, ok := at[g]; ok {
			figure.Add(&out[j].Used, &u.Used)
			continue
		}
		at[g] = len(out)
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b store.Use) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Command, b.Command), cmp.Compare(a.Kind, b.Kind))
	})
	return out
}
