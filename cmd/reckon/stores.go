package main

import (
	"github.com/spf13/pflag"

	"reckon/server"
)

// storeFlags define where series and catalogue are stored, if not in the data directory.
type storeFlags struct {
	store, catalogue string
	flags            *pflag.FlagSet
}

// register registers the flags, which several commands add.
func (s *storeFlags) register() {
	s.flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	s.flags.StringVar(&s.store, "store", "",
		"`URL` of another store of series: http://HOST:9090 (Prometheus), or with victoriametrics+, mimir+, influxdb+ or influxdb2+ in "+
			"front; see `reckon docs stores`")
	s.flags.StringVar(&s.catalogue, "catalogue", "",
		"`URL` of a PostgreSQL for the catalogue: postgres://USER@HOST/DATABASE, password_file=FILE behind a ?")
}

// isEmpty reports whether neither flag is given.
func (s *storeFlags) isEmpty() bool { return s.store == "" && s.catalogue == "" }

func (s *storeFlags) check() error {
	if err := server.CheckStores(s.store, s.catalogue); err != nil {
		return &usageError{err}
	}
	return nil
}

// describe describes the storage of the data for users.
func (s *storeFlags) describe(data string) string {
	switch {
	case s.store != "" && s.catalogue != "":
		return "series in " + server.HideParameters(s.store) + ", catalogue in " + server.HideParameters(s.catalogue)
	case s.store != "":
		return "series in " + server.HideParameters(s.store) + ", the rest in " + data
	case s.catalogue != "":
		return "catalogue in " + server.HideParameters(s.catalogue) + ", the rest in " + data
	}
	return "data in " + data
}
