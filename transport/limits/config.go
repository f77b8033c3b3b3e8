// Package limits limits the resources of a server that one sender, one site and one viewer may use, so that a mistake of one is not an
// outage for all: series, samples per second, bytes of a request, lengths of labels, time and memory of queries.
//
// A sender is a token or a signed-in name; a site, which is the tenant of a server that many share, is the label site of the series,
// whoever sends them. Requests that come too fast are answered with 429 and a time to wait, so that the sender keeps the samples. Excess
// parts (a new series over the limit, a label that is too long) are refused by name, and the rest of the request is stored.
//
// A [Limiter] is safe for concurrent use.
package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"go.yaml.in/yaml/v3"

	"reckon/access"
)

// Config is a file of limits. A bound of 0, or a missing one, is the default; -1 means no bound if the default is one.
type Config struct {
	// Requests bounds every request that brings samples, in bytes.
	Requests struct {
		Body     int64 `yaml:"body_bytes"`     // as sent; 16 MiB by default
		Unpacked int64 `yaml:"unpacked_bytes"` // 64 MiB by default
	} `yaml:"requests"`
	Labels Labels `yaml:"labels"`
	// Senders bounds each sender individually; a token may have its own bounds.
	Senders Bound `yaml:"senders"`
	// Nodes limits the series that may begin on each node of a sender in half an hour; by default
	// 60,000, or more if a node had more before there was a limit.
	Nodes struct {
		Series int `yaml:"series"`
	} `yaml:"nodes"`
	// Series bounds those in memory all together; by default as many as half the memory holds.
	Series int `yaml:"series"`
	// Sites bounds all samples sent for a site; "*" applies to sites that are not named.
	Sites map[string]Bound `yaml:"sites"`
	// Queries bounds the queries of a role: admin, support, user, public; "*" is for roles that are not named.
	Queries map[string]Query `yaml:"queries"`
}

// Labels bounds the labels of a series.
type Labels struct {
	Count int `yaml:"count"`       // labels of a series, its name included; 64 by default
	Name  int `yaml:"name_bytes"`  // of a label or a metric; 512 by default
	Value int `yaml:"value_bytes"` // 8,192 by default: the longest path of Linux fits twice
}

// Bound limits the data that may be sent. A value of 0 means no limit.
type Bound = access.Bound

// Query limits the queries of one viewer.
type Query struct {
	Time    time.Duration `yaml:"time"`    // of one query; 2 minutes by default
	Samples int           `yaml:"samples"` // that one query holds in memory, 16 bytes each; 20 million by default
	AtOnce  int           `yaml:"at_once"` // of one viewer; 8 by default
}

// Read reads a file of limits, strictly.
func Read(r io.Reader) (Config, error) {
	raw, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return Config{}, err
	}
	var c Config
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, err
	}
	return c, c.check()
}

func (c *Config) check() error {
	low := func(what string, v float64) error {
		if v < -1 || math.IsNaN(v) {
			return fmt.Errorf("%s: %v is no bound; write a number above 0, 0 for the default, or -1 for none", what, v)
		}
		return nil
	}
	errs := []error{
		low("requests.body_bytes", float64(c.Requests.Body)), low("requests.unpacked_bytes", float64(c.Requests.Unpacked)),
		low("labels.count", float64(c.Labels.Count)), low("labels.name_bytes", float64(c.Labels.Name)),
		low("labels.value_bytes", float64(c.Labels.Value)),
		low("nodes.series", float64(c.Nodes.Series)), low("series", float64(c.Series)),
		low("senders.series", float64(c.Senders.Series)), low("senders.samples_per_second", c.Senders.SamplesPerSecond),
	}
	for site, b := range c.Sites {
		errs = append(errs, low("sites."+site+".series", float64(b.Series)), low("sites."+site+".samples_per_second", b.SamplesPerSecond))
	}
	for role, q := range c.Queries {
		switch role {
		case "*", "admin", "support", "user", "public":
		default:
			errs = append(errs, fmt.Errorf("queries.%s: roles are admin, support, user and public; \"*\" is for those that are not named",
				role))
		}
		errs = append(errs, low("queries."+role+".samples", float64(q.Samples)), low("queries."+role+".at_once", float64(q.AtOnce)))
		if q.Time < 0 {
			errs = append(errs, fmt.Errorf("queries.%s.time: %s is no time that a query could take", role, q.Time))
		}
	}
	return errors.Join(errs...)
}

func limitOr[T int | int64](v, fallback, unlimited T) T {
	switch {
	case v < 0:
		return unlimited
	case v == 0:
		return fallback
	}
	return v
}

// Body returns the maximum size of a request in bytes, as sent.
func (c *Config) Body() int64 { return limitOr(c.Requests.Body, 16<<20, math.MaxInt64-1) }

// Unpacked returns the maximum size of a request in bytes after decompression.
func (c *Config) Unpacked() int64 { return limitOr(c.Requests.Unpacked, 64<<20, math.MaxInt64-1) }

// QueryLimits returns the query limits for users with the given role.
func (c *Config) QueryLimits(role string) Query {
	q, ok := c.Queries[role]
	if !ok {
		q = c.Queries["*"]
	}
	if q.Time == 0 {
		q.Time = 2 * time.Minute
	}
	q.Samples = limitOr(q.Samples, 20_000_000, math.MaxInt)
	q.AtOnce = limitOr(q.AtOnce, 8, math.MaxInt)
	return q
}
