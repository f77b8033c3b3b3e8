package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"reckon/agent"
)

// ownFlags define the sources of figures of other programs.
type ownFlags struct{ socket string }

func (o *ownFlags) register(f *pflag.FlagSet, c *agent.Config) {
	f.StringVar(&c.OwnMetrics, "own-metrics", "", "YAML file that names metrics of your own to read, see doc/guides/own-metrics.md")
	f.StringArrayVar(&c.Textfile, "textfile", nil, "folder with *.prom files that scripts write; can be given again")
	f.StringVar(&o.socket, "push-socket", "auto", "where reckon push of this machine sends to: a path, auto (RECKON_SOCKET, else "+agent.SystemSocket+" as root) or none")
}

// scrapeFlag adds the flag for the scrape targets of a server.
func scrapeFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "scrape-config", "", "file in the form of Prometheus (scrape_configs) that names targets to scrape; read again when it changes")
}

// path returns the socket path, empty for none.
func (o *ownFlags) path(getenv func(string) string) string {
	switch o.socket {
	case "none":
		return ""
	case "auto":
		if s := cmp.Or(getenv("RECKON_SOCKET"), agent.DefaultSocket(getenv)); s != "none" {
			return s
		}
		return ""
	}
	return o.socket
}

// wanted reports whether the socket was requested explicitly.
func (o *ownFlags) wanted() bool { return o.socket != "auto" && o.socket != "none" }
