package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"reckon/agent"
)

// ownFlags say where figures of others come from.
type ownFlags struct{ socket string }

func (o *ownFlags) register(f *pflag.FlagSet, c *agent.Config) {
	f.StringVar(&c.OwnMetrics, "own-metrics", "", "YAML file that names metrics of your own to read, see doc/guides/own-metrics.md")
	f.StringArrayVar(&c.Textfile, "textfile", nil, "folder with *.prom files that scripts write; can be given again")
	f.StringVar(&o.socket, "push-socket", "auto", "where reckon push of this machine sends to: a path, auto (RECKON_SOCKET, else "+agent.SystemSocket+" as root) or none")
}

// scrapeFlag names the targets of a server.
func scrapeFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "scrape-config", "", "file in the form of Prometheus (scrape_configs) that names targets to scrape; read again when it changes")
}

// path is where to listen, empty for nowhere.
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

// wanted reports whether somebody asked for the socket by name.
func (o *ownFlags) wanted() bool { return o.socket != "auto" && o.socket != "none" }
