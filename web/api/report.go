package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"reckon/access"
	"reckon/web/client"
)

func (s *server) reportRoutes() []route {
	when := schema{"type": "string", "examples": []string{"2026-11-01", "2026-11-21T10:00:00Z"}}
	return []route{{
		path: "/api/reckon/v1/report", summary: "How the site was used in a period",
		doc: "Utilisation over time and by hour of the week, owners, accounts, programs, kinds and nodes, waste, energy and up-time. " +
			"The public, and whoever asks with public=true, gets it without names.",
		params: []param{
			{name: "period", doc: "Length of time that it covers, up to its end.", schema: enumSchema(client.Periods()...)},
			{name: "until", doc: "End, not included; without it now: " + client.TimeForms + ".", schema: when},
			{name: "public", doc: "Remove names of owners, accounts, programs and nodes.", schema: schema{"type": "boolean"}},
		},
		answer: client.Report{}, fails: []int{400, 401, 404, 503}, role: access.Public, handle: s.serveReport,
	}}
}

func (s *server) serveReport(w http.ResponseWriter, r *http.Request, q *query) error {
	period, ok := q.get("period")
	if !ok {
		period = "month"
	}
	if !slices.Contains(client.Periods(), period) {
		q.reject("period", period, "give day, week, month, quarter or year")
	}
	until, public := q.time("until"), q.isTrue("public")
	if q.err != nil {
		return q.err
	}
	if until.IsZero() {
		until = q.now
	}
	if s.Usage == nil {
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server keeps no history of usage")
	}
	rep, err := s.makeReport(r.Context(), period, until.UTC(), public)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, rep)
	return nil
}

// periodStart returns the start of a period that ends at t, and the step of its plots.
func periodStart(period string, t time.Time) (since time.Time, step string) {
	switch period {
	case "day":
		return t.AddDate(0, 0, -1), "hour"
	case "week":
		return t.AddDate(0, 0, -7), "day"
	case "quarter":
		return t.AddDate(0, -3, 0), "week"
	case "year":
		return t.AddDate(-1, 0, 0), "month"
	}
	return t.AddDate(0, -1, 0), "day"
}

func (s *server) makeReport(ctx context.Context, period string, until time.Time, public bool) (client.Report, error) {
	since, step := periodStart(period, until)
	v := access.From(ctx)
	rep := client.Report{Period: period, Since: since, Until: until, Step: step, Public: public || v.Role == access.Public}
	if v.Role == access.Nobody {
		return rep, v.Unknown()
	}
	whole, err := s.Usage.Usage(ctx, client.UsageQuery{Since: since, Until: until, Span: "whole"})
	if err != nil {
		return rep, err
	}
	rep.Total, rep.Pending, rep.Missing, rep.Since, rep.Until = whole.Total, whole.Pending, whole.Missing, whole.Since, whole.Until
	for _, part := range []struct {
		into *[]client.Usage
		span string
		by   []string
	}{
		{&rep.Steps, step, nil}, {&rep.Week, "hour-of-week", nil}, {&rep.Owners, "whole", []string{"owner"}},
		{&rep.Accounts, "whole", []string{"account"}},
		{&rep.Commands, "whole", []string{"command"}}, {&rep.Kinds, "whole", []string{"kind"}}, {&rep.Nodes, "whole", []string{"node"}},
	} {
		q := client.UsageQuery{Since: since, Until: until, Span: part.span, By: part.by}
		ask := access.AuthorizeUsage(s.Usage).Usage
		if rep.Public {
			ask = s.Usage.Usage // names are removed below
		}
		list, err := ask(ctx, q)
		if err != nil {
			return rep, err
		}
		*part.into = list.Rows
		if *part.into == nil {
			*part.into = []client.Usage{}
		}
		if part.span == "whole" {
			slices.SortStableFunc(list.Rows, func(a, b client.Usage) int {
				return cmp.Compare(orMinusOne(b.CPUSeconds), orMinusOne(a.CPUSeconds))
			})
		}
	}
	if rep.Public {
		anonymize(&rep)
	}
	return rep, nil
}

func orMinusOne(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

// anonymize replaces the names in a report by their position. It also replaces the names of programs, because people
// may have named them after their projects.
func anonymize(r *client.Report) {
	for _, list := range [][]client.Usage{r.Steps, r.Week, r.Owners, r.Accounts, r.Commands, r.Kinds, r.Nodes} {
		for i := range list {
			u := &list[i]
			for _, f := range []struct {
				name *string
				word string
			}{{&u.Owner, "owner"}, {&u.Account, "account"}, {&u.Command, "program"}, {&u.Node, "node"}, {&u.Partition, "partition"},
				{&u.Site, "site"}} {
				if *f.name != "" {
					*f.name = fmt.Sprintf("%s %d", f.word, i+1)
				}
			}
		}
	}
	r.Missing = nil // may name sites
}
