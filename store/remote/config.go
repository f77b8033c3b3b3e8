package remote

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// serverKind is the kind of the remote server.
type serverKind string

const (
	kindPrometheus serverKind = "prometheus"
	kindVictoria   serverKind = "victoriametrics"
	kindMimir      serverKind = "mimir"
	kindInflux1    serverKind = "influxdb"
	kindInflux2    serverKind = "influxdb2"
)

var serverKinds = []serverKind{kindPrometheus, kindVictoria, kindMimir, kindInflux1, kindInflux2}

// settings are a parsed address.
type settings struct {
	kind  serverKind
	shown string // without a secret

	write, read, api string // whole addresses; read is empty for the query API
	database         string // of InfluxDB 1.x, or the bucket of 2.x
	org              string

	tenant                     string
	tokenFile                  string
	username, passwordFile     string
	caFile, certFile, keyFile  string
	timeout                    time.Duration
	native                     bool
	two                        bool // remote write 2.0
	maxBytes                   int64
	writePath, readPath, apiAt string
}

// urlParameters are the query parameters that an address may have.
var urlParameters = []string{"tenant", "token_file", "username", "password_file", "ca_file", "cert_file", "key_file", "timeout",
	"histograms", "protocol", "write", "read", "api"}

// ParseURL validates the address of a store:
//
//	http://HOST:9090                               Prometheus and compatible servers
//	victoriametrics+http://HOST:8428               VictoriaMetrics
//	mimir+https://HOST?tenant=NAME                 Mimir, Cortex
//	influxdb+http://HOST:8086/DATABASE             InfluxDB 1.x
//	influxdb2+https://HOST:8086/ORG/BUCKET         InfluxDB 2.x
//
// Query parameters are token_file, or username and password_file; ca_file, cert_file and key_file;
// tenant, sent as X-Scope-OrgID; timeout (30s); histograms=native if the server accepts native
// histograms; protocol=2.0 for remote write 2.0, which sends descriptions and counter start times
// with each series; and write, read and api for other paths or addresses, with read=query for a
// server without remote read.
func ParseURL(s string) error {
	_, err := parseSettings(s)
	return err
}

func parseSettings(s string) (*settings, error) {
	form := "write it like http://prometheus:9090, victoriametrics+http://HOST:8428, mimir+https://HOST?tenant=NAME, " +
		"influxdb+http://HOST:8086/DATABASE or influxdb2+https://HOST:8086/ORG/BUCKET"
	scheme, rest, ok := strings.Cut(strings.TrimSpace(s), "://")
	if !ok {
		return nil, fmt.Errorf("store %q is no address: %s", s, form)
	}
	c := &settings{kind: kindPrometheus, timeout: 30 * time.Second, maxBytes: 1 << 30}
	if k, plain, ok := strings.Cut(scheme, "+"); ok {
		c.kind, scheme = serverKind(k), plain
	}
	if !slices.Contains(serverKinds, c.kind) || (scheme != "http" && scheme != "https") {
		return nil, fmt.Errorf("store %q: unknown kind of server %s: %s", redact(s), strings.Split(s, "://")[0], form)
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		return nil, fmt.Errorf("store %s is no address; %s", redact(s), form)
	}
	if u.User != nil {
		return nil, fmt.Errorf(
			"store %s: the address holds a password, which others can see in the list of processes; write it into a file and give "+
				"username=NAME&password_file=FILE, or token_file=FILE", redact(s))
	}
	if u.Hostname() == "" || u.Fragment != "" {
		return nil, fmt.Errorf("store %s names no host, or has a #; %s", redact(s), form)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", redact(s), err)
	}
	if err := c.setOptions(q); err != nil {
		return nil, fmt.Errorf("store %s: %w", redact(s), err)
	}
	u.RawQuery = ""
	c.shown = u.String()
	return c, c.setEndpoints(u)
}

// setOptions reads the query parameters.
func (c *settings) setOptions(query url.Values) error {
	into := map[string]*string{
		"tenant": &c.tenant, "token_file": &c.tokenFile, "username": &c.username, "password_file": &c.passwordFile,
		"ca_file": &c.caFile, "cert_file": &c.certFile, "key_file": &c.keyFile, "write": &c.writePath, "read": &c.readPath, "api": &c.apiAt,
	}
	for name, values := range query {
		if !slices.Contains(urlParameters, name) {
			return fmt.Errorf("%q is no setting of a store; there are %s", name, strings.Join(urlParameters, ", "))
		}
		if len(values) != 1 || values[0] == "" {
			return fmt.Errorf("give %s once, and not empty", name)
		}
		if to := into[name]; to != nil {
			*to = values[0]
		}
	}
	if t := query.Get("timeout"); t != "" {
		d, err := time.ParseDuration(t)
		if err != nil || d < time.Millisecond {
			return fmt.Errorf("timeout %q: write it like 30s", t)
		}
		c.timeout = d
	}
	switch h := query.Get("histograms"); h {
	case "native":
		c.native = true
	case "", "classic":
	default:
		return fmt.Errorf("histograms %q: write native or classic", h)
	}
	switch p := query.Get("protocol"); {
	case p == "2.0" && (c.kind == kindPrometheus || c.kind == kindMimir):
		c.two = true
		c.native = query.Get("histograms") != "classic" // every server of 2.0 supports them
	case p == "2.0":
		return fmt.Errorf("protocol=2.0 is supported by Prometheus and Mimir; %s supports 1.0", c.kind)
	case p != "" && p != "1.0":
		return fmt.Errorf("protocol %q: write 2.0 or 1.0", p)
	}
	switch {
	case (c.certFile == "") != (c.keyFile == ""):
		return errors.New("cert_file and key_file belong together; give both")
	case (c.username == "") != (c.passwordFile == ""):
		return errors.New("username and password_file belong together; give both")
	case c.username != "" && c.tokenFile != "":
		return errors.New("give token_file, or username with password_file, not both")
	}
	return nil
}

// setEndpoints sets the addresses for writing, reading and queries.
func (c *settings) setEndpoints(address *url.URL) error {
	base := strings.TrimRight(address.Path, "/")
	root := address.Scheme + "://" + address.Host
	at := func(given, usual string) string {
		switch {
		case strings.Contains(given, "://"):
			return strings.TrimRight(given, "/")
		case given != "":
			return root + base + "/" + strings.TrimLeft(given, "/")
		}
		return root + base + usual
	}
	write, read, api := "/api/v1/write", "/api/v1/read", "/api/v1"
	switch c.kind {
	case kindMimir:
		write, read, api = "/api/v1/push", "/prometheus/api/v1/read", "/prometheus/api/v1"
		c.tenant = cmp.Or(c.tenant, "anonymous")
	case kindInflux1, kindInflux2:
		return c.setInfluxEndpoints(address, root)
	}
	c.write, c.api = at(c.writePath, write), at(c.apiAt, api)
	if c.readPath != "query" && c.kind != kindVictoria {
		c.read = at(c.readPath, read)
	}
	return nil
}

func (c *settings) setInfluxEndpoints(address *url.URL, root string) error {
	if c.native {
		return fmt.Errorf("store %s: InfluxDB does not support native histograms; leave histograms=native out", c.shown)
	}
	names := strings.Split(strings.Trim(address.Path, "/"), "/")
	if c.kind == kindInflux1 {
		if len(names) != 1 || names[0] == "" {
			return fmt.Errorf("store %s: name the database, as in influxdb+http://HOST:8086/DATABASE", c.shown)
		}
		c.database = names[0]
		db := "?db=" + url.QueryEscape(c.database)
		c.write, c.read, c.api = root+"/api/v1/prom/write"+db, root+"/api/v1/prom/read"+db, root+"/query"
		return nil
	}
	if len(names) != 2 || names[0] == "" || names[1] == "" {
		return fmt.Errorf("store %s: name the organisation and the bucket, as in influxdb2+https://HOST:8086/ORG/BUCKET", c.shown)
	}
	c.org, c.database = names[0], names[1]
	c.write = root + "/api/v2/write?" + url.Values{"org": {c.org}, "bucket": {c.database}, "precision": {"ms"}}.Encode()
	if c.writePath != "" { // 1.x, which accepts line protocol too
		c.write = root + c.writePath
	}
	c.read, c.api = "", root+"/query"
	return nil
}

// redact hides a possible password in an address that could not be parsed.
func redact(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return s
	}
	host, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndex(host, "@"); i >= 0 {
		host = "..." + host[i:]
	}
	if path != "" {
		host += "/" + path
	}
	return scheme + "://" + host
}
