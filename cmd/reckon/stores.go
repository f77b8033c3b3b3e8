package main

import (
	"github.com/spf13/cobra"

	"reckon/server"
)

// storeFlags define where series and catalogue are stored, if not in the data directory.
type storeFlags struct{ store, catalogue string }

func (s *storeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.store, "store", "", "`URL` of another store of series: http://HOST:9090 (Prometheus), or with victoriametrics+, mimir+, influxdb+ or influxdb2+ in front; see doc/guides/stores.md")
	cmd.Flags().StringVar(&s.catalogue, "catalogue", "", "`URL` of a PostgreSQL for the catalogue: postgres://USER@HOST/DATABASE, password_file=FILE behind a ?")
}

func (s *storeFlags) check() error {
	if err := server.CheckStores(s.store, s.catalogue); err != nil {
		return &usageError{err}
	}
	return nil
}

// place describes for people where the data is stored.
func (s *storeFlags) place(data string) string {
	switch {
	case s.store != "" && s.catalogue != "":
		return "series in " + server.Shown(s.store) + ", catalogue in " + server.Shown(s.catalogue)
	case s.store != "":
		return "series in " + server.Shown(s.store) + ", the rest in " + data
	case s.catalogue != "":
		return "catalogue in " + server.Shown(s.catalogue) + ", the rest in " + data
	}
	return "data in " + data
}

// graphFlags define how the knowledge graph is stored.
type graphFlags struct{ server.Graph }

func (g *graphFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&g.Off, "no-graph", false, "keep no knowledge graph; see reckon graph --help")
	f.BoolVar(&g.Compatible, "graph-compatible", false, "answer clients of the GLACIATION metadata service at /api/v0/graph, and make its timestamp: graphs")
	f.StringVar(&g.Base, "graph-base", "", "prefix of the ids in the knowledge graph (default urn:reckon:)")
	f.StringVar(&g.URL, "graph-url", "", "`URL` under which others reach this server, for links in the graph (default: its address)")
	f.StringVar(&g.Store, "graph-store", "", "`URL` of the Graph Store Protocol of another store for the knowledge graph: http://USER@HOST:3030/reckon/data?password_file=FILE")
	f.StringVar(&g.Query, "graph-sparql", "", "`URL` of SPARQL of that store, for administrators: http://HOST:3030/reckon/sparql")
	f.StringVar(&g.Loki, "graph-loki", "", "`URL` of the Loki that has the logs, for links in the graph")
}
