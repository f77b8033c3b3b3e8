package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"reckon/agent"
	"reckon/cmd/settings"
	"reckon/internal/buildinfo"
	"reckon/internal/queue"
	"reckon/internal/webconfig"
	"reckon/transport/instance"
	"reckon/transport/push"
)

// pushOptions define the destinations of the samples.
type pushOptions struct {
	urls      []string
	file      string
	queue     string
	tokenFile string
	caFile    string
	site      string
	syncEvery time.Duration // see push.Config
	maxQueue  int64         // for endpoints without their own limit; 0 is the default

	endpoints []push.Endpoint // from urls and file; see read
}

func (o *pushOptions) register(s *settings.Set) {
	f, k := s.Flags, s.Keys
	f.StringArrayVar(&o.urls, "push", nil, "address that takes Prometheus remote write, such as http://server:9870; can be given again")
	f.StringVar(&o.tokenFile, "push-token-file", "", "file with the bearer token to send to every --push")
	k.StringVar(&o.caFile, "push-ca", "", "file with the certificates of the authorities to trust for every --push")
	k.StringVar(&o.queue, "push-queue", "", "directory for samples that wait to be sent (default:  "+defaultQueue()+")")
	k.StringVar(&o.file, "push-config", "", "YAML file with endpoints, each with its own filter, labels and limits")
	f.StringVar(&o.site, "site", "", "name of the site, a label on every series")
}

// defaultQueue returns a folder that survives a restart of the machine.
func defaultQueue() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // a systemd service
		return filepath.Join(dir, "queue")
	}
	if os.Geteuid() == 0 {
		return "/var/lib/reckon-agent/queue"
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "reckon-agent", "queue")
	}
	return "reckon-agent.queue"
}

// buildEndpoints sets the endpoints from the flags and the file. It returns errors of both.
func (o *pushOptions) buildEndpoints() error {
	o.endpoints = nil
	if o.queue == "" {
		o.queue = defaultQueue()
	}
	for _, u := range o.urls {
		e := push.Endpoint{URL: u, TokenFile: o.tokenFile}
		if e.TokenFile == "" {
			e.TokenFile = localToken(u)
		}
		e.TLS.CAFile = o.caFile
		o.endpoints = append(o.endpoints, e)
	}
	if o.file != "" {
		more, err := readEndpoints(o.file)
		if err != nil {
			return &usageError{err}
		}
		o.endpoints = append(o.endpoints, more...)
	}
	if len(o.endpoints) == 0 && (o.tokenFile != "" || o.caFile != "") {
		return &usageError{errors.New("--push-token-file and the setting push-ca need --push")}
	}
	for i := range o.endpoints {
		if q := &o.endpoints[i].Queue; q.MaxBytes == 0 {
			q.MaxBytes = o.maxQueue
		}
	}
	for _, e := range o.endpoints {
		if _, err := push.ParseURL(e.URL); err != nil {
			return &usageError{fmt.Errorf("--push: %w", err)}
		}
	}
	return nil
}

// localToken returns the path of the token that the package created for a local server (LoadCredential=,
// systemd.exec(5)). It returns an empty string if there is no token or address is not on this machine.
func localToken(address string) string {
	u, err := push.ParseURL(address)
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if err != nil || dir == "" || !webconfig.LocalHost(u.Host) {
		return ""
	}
	file := filepath.Join(dir, "local.token")
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// readEndpoints reads a file of the form
//
//	push:
//	  - url: https://server/api/v1/write
//	    token_file: /etc/reckon/token
//	    keep: ['reckon_workload_*{kind="slurm"}']
//
// with the fields of [push.Endpoint]. Unknown fields are errors.
func readEndpoints(file string) ([]push.Endpoint, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("push-config: %w", err)
	}
	var c struct {
		Push []push.Endpoint `yaml:"push"`
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("push-config %s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(c.Push) == 0 {
		return nil, fmt.Errorf("push-config %s lists no endpoint under the word push", file)
	}
	return c.Push, nil
}

// nodeLabels returns the labels of every series of this node.
func (o *pushOptions) nodeLabels(node string) map[string]string {
	l := map[string]string{"node": node}
	if o.site != "" {
		l["site"] = o.site
	}
	return l
}

func (o *pushOptions) pusherConfig(node string, log *slog.Logger) push.Config {
	return push.Config{
		Endpoints: o.endpoints, Labels: o.nodeLabels(node), QueueDir: o.queue, SyncEvery: o.syncEvery,
		UserAgent: "reckon-agent/" + buildinfo.Get().Version, Logger: log,
	}
}

// runningPusher is a running Pusher.
type runningPusher struct {
	*push.Pusher
	cancel context.CancelFunc
	done   chan struct{}
}

// startPusher opens the queues, starts to send to each endpoint, and writes the status of each to stderr. It returns no error
// for an unreachable endpoint, because samples wait in its queue.
func (o *pushOptions) startPusher(ctx context.Context, a *agent.Agent, stderr io.Writer, log *slog.Logger) (*runningPusher, error) {
	config := o.pusherConfig(a.Node(), log)
	var err error
	if config.Instance, err = instance.Load("", filepath.Dir(o.queue)); err != nil {
		log.Warn("the next start of this agent may count as another machine of its name", "err", err)
	}
	config.Clock = push.Clock{Boot: config.Instance.Boot, Since: agent.SinceBoot}
	p, err := push.Open(config)
	if errors.Is(err, queue.ErrLocked) {
		return nil, fmt.Errorf("%w: does another reckon-agent run? Give this one another directory by the setting push-queue", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the queues are in %s (push-queue)", err, o.queue)
	}
	a.Attach(p.Reporter())
	run, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the last export is sent after ctx has ended
	r := &runningPusher{Pusher: p, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		p.Run(run)
	}()
	go func() {
		check, cancel := context.WithTimeout(run, 30*time.Second)
		defer cancel()
		for _, f := range p.Check(check) {
			if f.Problem == "" {
				fmt.Fprintf(stderr, "reckon-agent: pushing to %s (remote write %s)\n", f.URL, f.Protocol)
			} else if check.Err() == nil {
				fmt.Fprintf(stderr, "reckon-agent: cannot push to %s now: %s. Samples are buffered in %s meanwhile.\n", f.URL, f.Problem,
					o.queue)
			}
		}
	}()
	return r, nil
}

// stop sends the remaining samples, for a few seconds, and closes the queues.
func (r *runningPusher) stop() {
	r.cancel()
	<-r.done
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	r.Flush(ctx)
	_ = r.Close() // everything is on disk; nothing more can be done about an error
}
