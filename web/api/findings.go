package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"reckon/access"
	"reckon/analysis/misuse"
	"reckon/answer"
	"reckon/web/client"
)

// Findings returns findings of misuse and changes their state. If there is no finding with an id, the error matches
// answer.ErrNotFound.
type Findings interface {
	Findings(ctx context.Context, f client.FindingFilter) (client.FindingList, error)
	Finding(ctx context.Context, id string) (client.Finding, error)
	Acknowledge(ctx context.Context, id, by string) (client.Finding, error)
	Mute(ctx context.Context, id, reason string, until time.Time) (client.Finding, error)
	// WhatIf evaluates history with another policy; an error in the policy is a [Refuse] with status 400.
	WhatIf(ctx context.Context, policy []byte, since time.Time) (client.FindingDifference, error)
	Policy() []byte
	// FindingSteps returns the steps of a score of over-share. The error matches answer.ErrNotFound
	// if there is no such finding, and is a [Refuse] for other rules.
	FindingSteps(ctx context.Context, id string) (client.FindingSteps, error)
}

var (
	findingSeverities = []string{"high", "medium", "low"}
	findingStates     = []string{"new", "open", "gone"}
)

func (s *server) findingRoutes() []route {
	text, when := schema{"type": "string"}, schema{"type": "string", "examples": []string{"7d", "2026-11-21", "2026-11-21T10:00:00Z"}}
	id := param{name: "id", doc: "Id of the finding.", schema: text, inPath: true}
	return []route{
		{
			path: "/api/reckon/v1/findings", summary: "List findings",
			doc: "Cases of misuse, the gravest first; without a state those that are new or open. Users see their own.",
			params: []param{
				{name: "rule", doc: "Of these rules.", schema: enumSchema(misuse.Rules()...), many: true},
				{name: "severity", doc: "Of these severities.", schema: enumSchema(findingSeverities...), many: true},
				{name: "state", doc: "In these states.", schema: enumSchema(findingStates...), many: true},
				{name: "owner", doc: "Of these owners.", schema: text, many: true},
				{name: "workload", doc: "About this workload.", schema: text},
				{name: "node", doc: "About this node.", schema: text},
				{name: "since", doc: "Confirmed after this time, and those of imported time since then: " + client.TimeForms + ".",
					schema: when},
				{name: "muted", doc: "Also those that are muted.", schema: schema{"type": "boolean"}},
				{name: "limit", doc: "At most this many.",
					schema: schema{"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit}},
				formatParam,
			},
			answer: client.FindingList{}, csv: true, fails: []int{400, 401, 403, 404, 503}, role: access.User, handle: s.serveFindings,
		},
		{
			path: "/api/reckon/v1/policy", summary: "The thresholds of the rules",
			doc: "The policy of the server, as commented YAML.", media: "application/yaml", fails: []int{401, 403, 404}, role: access.User,
			handle: s.serveFindingPolicy,
		},
		{
			path: "/api/reckon/v1/findings/{id}", summary: "One finding with its evidence",
			params: []param{id}, answer: client.Finding{}, fails: []int{401, 403, 404, 503}, role: access.User, handle: s.serveFinding,
		},
		{
			path: "/api/reckon/v1/findings/{id}/steps", summary: "How the score of over-share adds up",
			doc: "Every stretch of time that adds to it, with the use, the fair share, and what made the node contended; names of " +
				"others are not in it.",
			params: []param{id}, answer: client.FindingSteps{}, fails: []int{400, 401, 403, 404, 503}, role: access.User,
			handle: s.serveFindingSteps,
		},
		{
			path: "/api/reckon/v1/findings/{id}/acknowledge", method: http.MethodPost, summary: "Acknowledge a finding",
			params: []param{id}, answer: client.Finding{}, fails: []int{401, 403, 404, 503}, role: access.Support,
			handle: s.serveAcknowledge,
		},
		{
			path: "/api/reckon/v1/findings/{id}/mute", method: http.MethodPost,
			summary: "Keep a finding out of lists and alerts for some time",
			params: []param{id, {name: "reason", doc: "Why.", schema: text},
				{name: "until", doc: "Until when; a time in the past ends it.", schema: when}},
			answer: client.Finding{}, fails: []int{400, 401, 403, 404, 503}, role: access.Support, handle: s.serveMute,
		},
		{
			path: "/api/reckon/v1/policy/what-if", method: http.MethodPost, summary: "What another policy would have found",
			params: []param{{name: "policy", doc: "The other policy, YAML.", schema: text},
				{name: "since", doc: "From when on; without it a day.", schema: when}},
			answer: client.FindingDifference{}, fails: []int{400, 401, 403, 404, 503}, role: access.Support, handle: s.serveWhatIf,
		},
	}
}

func (s *server) requireFindings() error {
	if s.Findings == nil {
		return newError(http.StatusNotFound, "ask a server that keeps a catalogue", "this server does not look for misuse")
	}
	return nil
}

func knownValues(q *query, name string, known []string) []string {
	list := q.list(name)
	for _, w := range list {
		if !slices.Contains(known, w) {
			q.rejectUnknown(name, w, "give some of", known)
		}
	}
	return list
}

func (s *server) serveFindings(w http.ResponseWriter, r *http.Request, q *query) error {
	f := client.FindingFilter{
		Rules: knownValues(q, "rule", misuse.Rules()), Severities: knownValues(q, "severity", findingSeverities),
		States: knownValues(q, "state", findingStates),
		Owners: q.list("owner"), Since: q.time("since"), Limit: q.integer("limit", defaultLimit, 1, maxLimit),
	}
	f.Workload, _ = q.get("workload")
	f.Node, _ = q.get("node")
	f.Muted = q.isTrue("muted")
	format := q.format(r)
	if q.err != nil {
		return q.err
	}
	if err := s.requireFindings(); err != nil {
		return err
	}
	v := access.From(r.Context())
	list := client.FindingList{}
	if !v.All() {
		if f.Owners = v.OwnAmong(f.Owners); len(f.Owners) == 0 {
			f.Owners = nil
			list.Findings, list.Owners = []client.Finding{}, []client.FindingOwner{}
			writeJSON(w, http.StatusOK, list)
			return nil
		}
	}
	list, err := s.Findings.Findings(r.Context(), f)
	if err != nil {
		return err
	}
	s.recordAccess(r, "findings", f.Query().Encode(), "")
	if list.Findings == nil {
		list.Findings = []client.Finding{}
	}
	if list.Owners == nil {
		list.Owners = []client.FindingOwner{}
	}
	if format == "csv" {
		return writeCSV(w, "findings", list.Findings, nil)
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

func (s *server) serveFindingPolicy(w http.ResponseWriter, _ *http.Request, q *query) error {
	if q.err != nil {
		return q.err
	}
	if err := s.requireFindings(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	_, _ = w.Write(s.Findings.Policy()) // the client has disconnected
	return nil
}

// visibleFinding returns the finding of a request if the viewer may see it.
func (s *server) visibleFinding(r *http.Request, q *query) (f client.Finding, err error) {
	if q.err != nil {
		return f, q.err
	}
	if err := s.requireFindings(); err != nil {
		return f, err
	}
	f, err = s.Findings.Finding(r.Context(), r.PathValue("id"))
	if err == nil && !access.From(r.Context()).Sees(f.Owner) {
		err = answer.ErrNotFound
	}
	if err != nil {
		return f, findingError(r, err)
	}
	return f, nil
}

func (s *server) serveFinding(w http.ResponseWriter, r *http.Request, q *query) error {
	f, err := s.visibleFinding(r, q)
	if err != nil {
		return err
	}
	s.recordAccess(r, "finding", f.ID, f.Owner)
	writeJSON(w, http.StatusOK, f)
	return nil
}

// findingError words the error if there is no such finding, and returns other errors unchanged.
func findingError(r *http.Request, err error) error {
	if !errors.Is(err, answer.ErrNotFound) {
		return err
	}
	return newError(http.StatusNotFound, "`reckon findings --all` lists them; rules are "+strings.Join(misuse.Rules(), ", "),
		"no finding %q",
		r.PathValue("id"))
}

func (s *server) serveFindingSteps(w http.ResponseWriter, r *http.Request, q *query) error {
	f, err := s.visibleFinding(r, q)
	if err != nil {
		return err
	}
	steps, err := s.Findings.FindingSteps(r.Context(), f.ID)
	if err != nil {
		return err
	}
	s.recordAccess(r, "finding", f.ID, f.Owner)
	writeJSON(w, http.StatusOK, steps)
	return nil
}

func (s *server) serveAcknowledge(w http.ResponseWriter, r *http.Request, q *query) error {
	if q.err != nil {
		return q.err
	}
	if err := s.requireFindings(); err != nil {
		return err
	}
	by := access.From(r.Context()).Called()
	by = cmp.Or(by, "admin")
	f, err := s.Findings.Acknowledge(r.Context(), r.PathValue("id"), by)
	if err != nil {
		return findingError(r, err)
	}
	writeJSON(w, http.StatusOK, f)
	return nil
}

func (s *server) serveMute(w http.ResponseWriter, r *http.Request, q *query) error {
	until := q.time("until")
	reason, _ := q.get("reason")
	if q.err == nil && (until.IsZero() || reason == "") {
		return newError(http.StatusBadRequest, "give reason and until, such as until=2026-12-01",
			"a finding is muted for a reason and until a time")
	}
	if q.err != nil {
		return q.err
	}
	if err := s.requireFindings(); err != nil {
		return err
	}
	f, err := s.Findings.Mute(r.Context(), r.PathValue("id"), reason, until)
	if err != nil {
		return findingError(r, err)
	}
	writeJSON(w, http.StatusOK, f)
	return nil
}

func (s *server) serveWhatIf(w http.ResponseWriter, r *http.Request, q *query) error {
	since := q.time("since")
	policy, _ := q.get("policy")
	if q.err != nil {
		return q.err
	}
	if since.IsZero() {
		since = q.now.Add(-24 * time.Hour)
	}
	if q.now.Sub(since) < time.Minute || q.now.Sub(since) > 31*24*time.Hour {
		return newError(http.StatusBadRequest, "give a time between a minute and 31 days ago",
			"parameter since: history of that length is not evaluated")
	}
	if err := s.requireFindings(); err != nil {
		return err
	}
	d, err := s.Findings.WhatIf(r.Context(), []byte(policy), since)
	if err != nil {
		return err
	}
	if d.Added == nil {
		d.Added = []client.Finding{}
	}
	if d.Removed == nil {
		d.Removed = []client.Finding{}
	}
	writeJSON(w, http.StatusOK, d)
	return nil
}
