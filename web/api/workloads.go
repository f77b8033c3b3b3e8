package api

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"reckon/web/client"
	"reckon/workload"
)

func (s *server) serveWorkloads(w http.ResponseWriter, r *http.Request, q *query) error {
	f, format := parseFilter(q), q.format(r)
	if q.err != nil {
		return q.err
	}
	list, err := s.Backend.Workloads(r.Context(), f)
	if err != nil {
		return err
	}
	s.recordListAccess(r, f)
	if list.Workloads == nil {
		list.Workloads = []client.Workload{}
	}
	for i := range list.Workloads {
		fillEmptyLists(&list.Workloads[i])
	}
	linkNext(w, r, f.Offset, len(list.Workloads), list.Total)
	if format == "csv" {
		return writeCSV(w, "workloads", list.Workloads, list.Missing)
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

// fillEmptyLists turns nil lists into empty ones, so that they are never null in JSON.
func fillEmptyLists(w *client.Workload) {
	if w.Nodes == nil {
		w.Nodes = []string{}
	}
}

func (s *server) serveWorkload(w http.ResponseWriter, r *http.Request, q *query) error {
	rng := parseRange(q)
	if q.err != nil {
		return q.err
	}
	asked := strings.Trim(r.PathValue("id"), "/")
	if asked == "" {
		return newError(http.StatusBadRequest, "give kind/name, such as slurm/4711", "the id is empty")
	}
	one, runs, err := s.findRun(r.Context(), asked, rng)
	if err != nil {
		return err
	}
	d, err := s.Backend.Workload(r.Context(), *one, rng)
	if err != nil {
		return err
	}
	s.recordAccess(r, "workload", d.ID, d.Owner)
	d.Runs = otherRuns(runs, d.Site)
	fillEmptyLists(&d.Workload)
	if d.Profile == nil {
		d.Profile = []client.Profile{}
	}
	for i := range d.Profile {
		if d.Profile[i].Points == nil {
			d.Profile[i].Points = []client.Point{}
		}
	}
	if d.Commands == nil {
		d.Commands = []client.Command{}
	}
	writeJSON(w, http.StatusOK, d)
	return nil
}

// maxSearched is the maximum number of latest workloads that are searched if no id or name matches.
const maxSearched = 2000

// resolveID returns the id of the one workload that text identifies, or an error with the candidates. It compares text
// with the job number, then with the name, both for workloads of any age. After that it compares text with the end of
// the id of recent workloads, and then with the end of a name.
func (s *server) resolveID(ctx context.Context, text string) (string, error) {
	exact, err := s.visibleNumbered(ctx, text)
	if err != nil {
		return "", err
	}
	var ids []string
	if len(exact) == 0 {
		var err error
		if exact, err = s.idsByName(ctx, escapePattern(text)); err != nil {
			return "", err
		}
	}
	if len(exact) == 0 {
		list, err := s.Backend.Workloads(ctx, client.Filter{Sort: "-seen", Limit: maxSearched})
		if err != nil {
			return "", err
		}
		var loose []string
		for _, w := range list.Workloads {
			ids = append(ids, w.ID)
			_, name, _ := strings.Cut(w.ID, "/")
			switch {
			case slices.Contains(exact, w.ID), slices.Contains(loose, w.ID):
			case name == text:
				exact = append(exact, w.ID)
			case path.Base(w.ID) == text, strings.TrimSuffix(name, ".service") == text, strings.HasSuffix(w.ID, "/"+text):
				loose = append(loose, w.ID)
			}
		}
		if len(exact) == 0 {
			exact = loose
		}
	}
	for _, pattern := range []string{"*/" + escapePattern(text), escapePattern(text) + ".service"} {
		if len(exact) > 0 {
			break
		}
		var err error
		if exact, err = s.idsByName(ctx, pattern); err != nil {
			return "", err
		}
	}
	switch len(exact) {
	case 0:
		hint := "`reckon jobs` and GET /api/reckon/v1/workloads list what there is"
		family, err := s.familyMessage(ctx, text)
		if err != nil {
			return "", err
		}
		if isDigits(text) { // a number is the batch system's, not part of a name of another kind
			ids = slices.DeleteFunc(ids, func(id string) bool { return !workload.ID(id).Kind().Array() })
		}
		ran, err := s.Backend.Workloads(ctx, client.Filter{Command: escapePattern(text), Limit: 1})
		if err != nil {
			return "", err
		}
		switch near := client.Nearest(text, ids, 5); {
		case family != "":
			hint = family
		case len(ran.Workloads) > 0:
			hint = "`reckon jobs --command " + text + "` lists what ran this program"
		case len(near) > 0:
			hint = "did you mean " + strings.Join(near, ", ") + "?"
		case isDigits(text):
			hint = "a bare number is the id of a batch job; `reckon jobs --command NAME` finds what ran a program"
		}
		return "", newError(http.StatusNotFound, hint, "no workload %q", text)
	case 1:
		return exact[0], nil
	}
	return "", ambiguousError(text, exact)
}

// ambiguousError returns the error for text that matches several workloads.
func ambiguousError(text string, ids []string) error {
	more := ""
	if len(ids) > 10 {
		ids, more = ids[:10], ", ..."
	}
	return newError(http.StatusConflict, "name one of them: "+strings.Join(ids, ", ")+more, "%q can be several workloads", text)
}

// familyMessage returns a message about the existing parts of the array or heterogeneous job that text refers to. It returns
// "" if there are none.
func (s *server) familyMessage(ctx context.Context, text string) (string, error) {
	text = workload.JobNumber(text)
	has := func(name string) (bool, error) {
		list, err := s.Backend.Workloads(ctx, client.Filter{IDs: []string{string(workload.JobID(name))}, Limit: 1})
		return len(list.Workloads) > 0, err
	}
	if number, task, ok := strings.Cut(text, "_"); ok && isDigits(number) && isDigits(task) {
		ok, err := has(number)
		if !ok || err != nil {
			return "", err
		}
		return fmt.Sprintf("slurm/%s stands for its tasks that have not started; `reckon job %s` lists the others", number, number), nil
	}
	if !isDigits(text) {
		return "", nil
	}
	for _, k := range []struct{ between, what string }{{"+", "component"}, {"_", "task"}} {
		var found []string
		for i := range 5 {
			name := fmt.Sprint(text, k.between, i)
			ok, err := has(name)
			if err != nil {
				return "", err
			}
			if ok {
				found = append(found, "slurm/"+name)
			}
		}
		if len(found) > 0 {
			return fmt.Sprintf("each %s of it has an id of its own, such as %s", k.what, strings.Join(found, ", ")), nil
		}
	}
	return "", nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// idsByName lists the ids of workloads with a name, or with names that match a pattern.
func (s *server) idsByName(ctx context.Context, pattern string) (ids []string, err error) {
	list, err := s.Backend.Workloads(ctx, client.Filter{Name: pattern, Sort: "-seen", Limit: 20})
	for _, w := range list.Workloads {
		if !slices.Contains(ids, w.ID) {
			ids = append(ids, w.ID)
		}
	}
	return ids, err
}

// escapePattern escapes the special characters of a shell pattern.
func escapePattern(s string) string {
	// a form that all implementations of patterns agree on
	return strings.NewReplacer(`\`, `?`, `*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(s)
}

func (s *server) serveNodes(w http.ResponseWriter, r *http.Request, q *query) error {
	format := q.format(r)
	if q.err != nil {
		return q.err
	}
	list, err := s.Backend.Nodes(r.Context())
	if err != nil {
		return err
	}
	if list.Nodes == nil {
		list.Nodes = []client.Node{}
	}
	for i := range list.Nodes {
		if list.Nodes[i].Sensors == nil {
			list.Nodes[i].Sensors = []client.Sensor{}
		}
	}
	if format == "csv" {
		return writeCSV(w, "nodes", list.Nodes, list.Missing)
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}
