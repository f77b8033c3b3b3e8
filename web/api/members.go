package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"reckon/access"
	"reckon/answer"
	"reckon/web/client"
)

// maxMembers is the maximum number of runs of members that are joined, the latest first.
const maxMembers = 20_000

func (s *server) memberRoutes() []route {
	return []route{{
		path: "/api/reckon/v1/members/{id...}", summary: "A job array or a heterogeneous job as a whole",
		doc: "The id is that of the whole, such as slurm/4 or 4, or names some tasks, such as 4_[1-4,7]. Figures are added up where " +
			"sums are right.",
		params: []param{
			{name: "id", doc: "Number of the array or the heterogeneous job.", schema: schema{"type": "string"}, inPath: true},
			{name: "site", doc: "Site, when several sites used the same id; without it an ambiguous id gets 409.",
				schema: schema{"type": "string"}},
		},
		answer: client.Members{}, fails: []int{400, 401, 403, 404, 409, 503}, role: access.Public, handle: s.serveMembers,
	}}
}

func (s *server) serveMembers(w http.ResponseWriter, r *http.Request, q *query) error {
	asked := strings.Trim(r.PathValue("id"), "/")
	id, only, err := answer.ParseMembers(asked)
	if err != nil {
		return err
	}
	f := client.Filter{Family: id, Sort: "-start", Limit: maxMembers}
	if site, ok := q.get("site"); ok && site != "" {
		f.Sites = []string{site}
	}
	list, err := s.Backend.Workloads(r.Context(), f)
	if err != nil {
		return err
	}
	var sites []string
	for i := range list.Workloads {
		fillEmptyLists(&list.Workloads[i])
		if !slices.Contains(sites, list.Workloads[i].Site) {
			sites = append(sites, list.Workloads[i].Site)
		}
	}
	if len(sites) > 1 {
		return newError(http.StatusConflict, "name the site: "+strings.Join(sites, ", "), "%s is of %d sites", asked, len(sites))
	}
	m, ok := answer.Members(id, list.Workloads, only)
	if !ok {
		return newError(http.StatusNotFound, "`reckon jobs` and GET /api/reckon/v1/workloads list what there is",
			"no tasks or components of %q", asked)
	}
	if only != nil {
		m.ID = id + "_[" + strings.SplitN(asked, "_[", 2)[1]
	}
	if m.Missing = list.Missing; list.Total > len(list.Workloads) {
		m.Missing = append(m.Missing, fmt.Sprintf("all but the latest %d runs of its members", len(list.Workloads)))
	}
	s.recordAccess(r, "members", m.ID, m.Owner)
	writeJSON(w, http.StatusOK, m)
	return nil
}
