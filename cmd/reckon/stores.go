package main

import (
	"github.com/spf13/cobra"

	"reckon/server"
)

// storeFlags say where series and catalogue are kept, if not in the data directory.
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

// place says where the numbers are, for people.
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
