package slurmctl

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/interop/scheduler"
)

// Rest queries slurmrestd (slurmrestd(8), https://slurm.schedmd.com/rest_api.html).
type Rest struct {
	base    *url.URL
	token   string // file; empty for none, as on a socket
	http    *http.Client
	version string // v0.0.40, once known
}

// NewRest returns a source for slurmrestd at an address, http://HOST:PORT or unix:///PATH. token is the name of a file
// with a JSON web token. The file is read before each query, so that the token can be renewed.
func NewRest(address, token string) (*Rest, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("address of slurmrestd: %w", err)
	}
	transport := &http.Transport{MaxIdleConns: 2, IdleConnTimeout: time.Minute, Proxy: nil}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return nil, fmt.Errorf("address of slurmrestd %q names no host", address)
		}
	case "unix":
		path := u.Path
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		u = &url.URL{Scheme: "http", Host: "localhost"}
	default:
		return nil, fmt.Errorf("address of slurmrestd %q: want http://HOST:PORT, https://HOST:PORT or unix:///PATH", address)
	}
	return &Rest{base: u, token: token, http: &http.Client{Transport: transport}}, nil
}

// Name implements Source.
func (s *Rest) Name() string { return "slurmrestd at " + s.base.Redacted() }

// Jobs implements Source.
func (s *Rest) Jobs(ctx context.Context) (jobs []scheduler.Job, got scheduler.Read, err error) {
	err = s.queryAPI(ctx, "slurm", "jobs", nil, func(r io.Reader) (err error) { jobs, got, err = readJobs(r); return err })
	return jobs, got, err
}

// Ended implements Source.
func (s *Rest) Ended(ctx context.Context, since, until time.Time) ([]scheduler.Job, scheduler.Read, error) {
	return s.queryAccounts(ctx, url.Values{"start_time": {restTime(since)}, "end_time": {restTime(until)}, "state": {finalStatesLong}})
}

// ByNumber implements Source.
func (s *Rest) ByNumber(ctx context.Context, numbers []uint64, since time.Time) ([]scheduler.Job, scheduler.Read, error) {
	// The parameter for several jobs was introduced late; the path for one job has always existed.
	var all []scheduler.Job
	var sum scheduler.Read
	for _, n := range numbers[:min(len(numbers), 50)] {
		var jobs []scheduler.Job
		var got scheduler.Read
		err := s.queryAPI(ctx, "slurmdb", "job/"+strconv.FormatUint(uint64(n), 10), nil,
			func(r io.Reader) (err error) { jobs, got, err = readAccounts(r); return err })
		all, sum.Records, sum.Bad = append(all, jobs...), sum.Records+got.Records, sum.Bad+got.Bad
		if err != nil {
			return all, sum, err
		}
	}
	return slices.DeleteFunc(all, func(j scheduler.Job) bool { return j.Submit.Before(since) }), sum, nil
}

func (s *Rest) queryAccounts(ctx context.Context, q url.Values) (jobs []scheduler.Job, got scheduler.Read, err error) {
	err = s.queryAPI(ctx, "slurmdb", "jobs", q, func(r io.Reader) (err error) { jobs, got, err = readAccounts(r); return err })
	return jobs, got, err
}

// Nodes implements Source.
func (s *Rest) Nodes(ctx context.Context) (nodes []scheduler.Node, parts []scheduler.Partition, got scheduler.Read, err error) {
	err = s.queryAPI(ctx, "slurm", "nodes", nil, func(r io.Reader) (err error) { nodes, got, err = readNodes(r); return err })
	if err != nil {
		return nodes, nil, got, err
	}
	err = s.queryAPI(ctx, "slurm", "partitions", nil, func(r io.Reader) (err error) { parts, _, err = readPartitions(r); return err })
	return nodes, parts, got, err
}

func (s *Rest) queryAPI(ctx context.Context, api, what string, q url.Values, read func(io.Reader) error) error {
	if s.version == "" {
		v, err := s.newestVersion(ctx)
		if err != nil {
			return err
		}
		s.version = v
	}
	err := s.getJSON(ctx, "/"+api+"/"+s.version+"/"+what, q, read)
	if gone := (statusError{}); errors.As(err, &gone) && gone.code == http.StatusNotFound {
		s.version = "" // it may be another release by now
	}
	return err
}

type statusError struct {
	code int
	text string
}

func (e statusError) Error() string { return e.text }

func (s *Rest) getJSON(ctx context.Context, path string, q url.Values, read func(io.Reader) error) error {
	u := s.base.JoinPath(path)
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("slurmrestd: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if err := s.addToken(req); err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return fmt.Errorf("slurmrestd: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return statusError{resp.StatusCode,
			fmt.Sprintf(
				"slurmrestd at %s requires authentication (HTTP %d): put a fresh token, as `scontrol token` prints it, into the file "+
					"given with the setting slurm-token-file", s.base.Redacted(), resp.StatusCode)}
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		if p := eachElement(strings.NewReader(string(text)), "jobs", func(json.RawMessage) {}); p == nil {
			return nil // some releases answer "nothing found" with an error
		}
		return statusError{resp.StatusCode,
			fmt.Sprintf("slurmrestd: GET %s: HTTP %d: %s", path, resp.StatusCode, strings.Join(strings.Fields(string(text)), " "))}
	}
	if err := read(resp.Body); err != nil {
		return fmt.Errorf("slurmrestd: GET %s: %w", path, err)
	}
	return nil
}

// addToken adds the token, and its user, which old releases require.
func (s *Rest) addToken(req *http.Request) error {
	if s.token == "" {
		return nil
	}
	raw, err := os.ReadFile(s.token)
	if err != nil {
		return fmt.Errorf("token for slurmrestd: %w", err)
	}
	t := strings.TrimPrefix(strings.TrimSpace(string(raw)), "SLURM_JWT=")
	if t == "" || strings.ContainsAny(t, " \n\r") {
		return fmt.Errorf("token for slurmrestd: %s holds no token in one line, as `scontrol token` prints it", s.token)
	}
	req.Header.Set("X-SLURM-USER-TOKEN", t)
	if user := tokenUser(t); user != "" {
		req.Header.Set("X-SLURM-USER-NAME", user)
	}
	return nil
}

// tokenUser returns the user of a Slurm token (claim "sun" or "username").
func tokenUser(t string) string {
	parts := strings.Split(t, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct{ Sun, Username string }
	if json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	for _, u := range []string{claims.Sun, claims.Username} {
		if u != "" && !strings.ContainsFunc(u, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			return u
		}
	}
	return ""
}

// apiPath matches a path in slurmrestd's OpenAPI document; some releases escape slashes.
var apiPath = regexp.MustCompile(`/slurm\\?/(v0\.0\.(\d{1,4}))\\?/jobs`)

// newestVersion returns the newest API version of the service.
func (s *Rest) newestVersion(ctx context.Context) (version string, err error) {
	top := 0
	err = s.getJSON(ctx, "/openapi/v3", nil, func(r io.Reader) error {
		raw, err := io.ReadAll(io.LimitReader(r, 64<<20))
		if err != nil {
			return err
		}
		for _, m := range apiPath.FindAllSubmatch([]byte(strings.ReplaceAll(string(raw), `\/`, "/")), -1) {
			if n, err := strconv.Atoi(string(m[2])); err == nil && n > top {
				top, version = n, string(m[1])
			}
		}
		if top == 0 {
			return errors.New("it describes no jobs: it was started without the openapi plugins slurmctld and slurmdbd")
		}
		return nil
	})
	return version, err
}

// restTime formats a time in a form that all releases accept.
func restTime(t time.Time) string { return "uts" + strconv.FormatInt(t.Unix(), 10) }
