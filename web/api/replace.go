package api

import (
	"net/http"

	"reckon/access"
	"reckon/web/client"
)

func (s *server) replaceRoutes() []route {
	text := schema{"type": "string"}
	return []route{{
		path: "/api/reckon/v1/nodes/replace", method: http.MethodPost, summary: "Let another machine take the place of a node",
		doc: "A node is one machine: another one that sends by its name is refused until the first has been silent for ten minutes. " +
			"This gives the name to the one that was refused, or to whoever sends next.",
		params: []param{
			{name: "node", doc: "Name of the node.", schema: text},
			{name: "site", doc: "Its site; left out for a node without one.", schema: text},
		},
		answer: client.Replaced{}, fails: []int{400, 401, 403, 404}, role: access.Admin, handle: s.replaceNode,
	}}
}

func (s *server) replaceNode(w http.ResponseWriter, _ *http.Request, q *query) error {
	node, _ := q.get("node")
	site, _ := q.get("site")
	switch {
	case q.err != nil:
		return q.err
	case node == "":
		return newError(http.StatusBadRequest, "give node=NAME", "no node is named")
	case s.Replace == nil || !s.Replace(site, node):
		return newError(http.StatusNotFound, "`reckon nodes` lists the names; with --site where a node has one",
			"no machine sends as node %q",
			node)
	}
	writeJSON(w, http.StatusOK, client.Replaced{Node: node, Site: site})
	return nil
}
