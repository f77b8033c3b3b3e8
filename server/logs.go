package server

import (
	"os"
	"time"

	"reckon/answer"
	"reckon/interop/loki"
	"reckon/interop/podlog"
	"reckon/web/api"
)

// Logs configures the location of the logs of workloads. The server stores none.
type Logs struct {
	// Loki is its address, empty for none; Selector is a template of LogQL, loki.DefaultSelector if empty.
	Loki, Selector string
	// Pods reads logs that Loki does not have from the API server of the server's own cluster.
	Pods bool
}

// open returns a reader of logs; nil if no location of logs is known.
func (l Logs) open() (api.Logs, error) {
	a := &answer.Logs{Clock: time.Now}
	if l.Loki != "" {
		c, err := loki.New(l.Loki, l.Selector)
		if err != nil {
			return nil, err
		}
		a.Sources = append(a.Sources, c)
	}
	if l.Pods {
		c, err := podlog.New(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"), podlog.AccountFolder)
		if err != nil {
			return nil, err
		}
		a.Sources = append(a.Sources, c)
	}
	if len(a.Sources) == 0 {
		return nil, nil
	}
	return a, nil
}
