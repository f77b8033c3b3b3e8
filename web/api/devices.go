package api

import (
	"context"
	"net/http"

	"reckon/access"
	"reckon/web/client"
)

// Devices returns the activity of the devices of nodes. Names of exports may contain user names: it is not public.
type Devices interface {
	Devices(ctx context.Context, site, node string) (client.NodeDevices, error)
}

func (s *server) deviceRoutes() []route {
	text := schema{"type": "string"}
	return []route{{
		path: "/api/reckon/v1/nodes/{node}/devices", summary: "Disks, network file systems and interconnects of a node",
		doc: "What each disk, network file system (NFS, Lustre) and port of an interconnect of a node does: rates and mean times " +
			"over the last two minutes.",
		params: []param{{name: "node", doc: "The node.", schema: text, inPath: true},
			{name: "site", doc: "Its site, where several have a node of that name.", schema: text}},
		answer: client.NodeDevices{}, fails: []int{400, 401, 403, 404, 503}, role: access.User, handle: s.serveDevices,
	}}
}

func (s *server) serveDevices(w http.ResponseWriter, r *http.Request, q *query) error {
	site, _ := q.get("site")
	if q.err != nil {
		return q.err
	}
	if s.Devices == nil {
		return newError(http.StatusNotFound, "ask a server that keeps series", "this server has no device data")
	}
	out, err := s.Devices.Devices(r.Context(), site, r.PathValue("node"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}
