// Package remote keeps the statements of the knowledge graph in any store with the SPARQL 1.1 Graph Store HTTP Protocol
// (https://www.w3.org/TR/sparql11-http-rdf-update/), such as Fuseki, Oxigraph or Virtuoso, one named graph for each
// subgraph.
//
// That protocol has no versions, owners or conditions, so these are kept in a registry beside it: a graph.Store with,
// for each subgraph, one statement, the hash of the content in the remote store. Unchanged content is not sent. While
// the remote store is unreachable, writes fail with graph.ErrUnavailable and the caller has to repeat them. A Store is
// safe for concurrent use.
package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"reckon/graph"
)

// Options configure a remote store.
type Options struct {
	// Store is the address of the Graph Store Protocol, Query the address for SPARQL. Both may
	// contain a user, and ?password_file=FILE.
	Store, Query string
	Registry     graph.Store
	HTTP         *http.Client // nil is a client with a timeout of 30 s
}

// Store is a graph in a remote store.
type Store struct {
	store, query *endpoint
	registry     graph.Store
	http         *http.Client
	proxy        *httputil.ReverseProxy
	writes       sync.Mutex // one at a time, so that registry and remote store stay consistent
}

var _ graph.Store = (*Store)(nil)

// maxAnswer is the maximum size of a response, bytes.
const maxAnswer = 64 << 20

// endpoint is an address with credentials.
type endpoint struct {
	url            *url.URL
	user, password string
}

func parseEndpoint(address string) (*endpoint, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the address of a graph store is http://HOST/PATH or https://HOST/PATH, not %q", address)
	}
	e := &endpoint{url: u}
	if u.User != nil {
		if _, ok := u.User.Password(); ok {
			return nil, errors.New("the address of a graph store must not contain a password; write ?password_file=FILE")
		}
		e.user = u.User.Username()
		u.User = nil
	}
	q := u.Query()
	if file := q.Get("password_file"); file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the password of the graph store: %w", err)
		}
		e.password = strings.TrimRight(string(raw), "\r\n")
		q.Del("password_file")
		u.RawQuery = q.Encode()
	}
	return e, nil
}

func (e *endpoint) addCredentials(r *http.Request) {
	if e.user != "" {
		r.SetBasicAuth(e.user, e.password)
	}
}

// Open returns the store; nothing is sent yet.
func Open(o Options) (*Store, error) {
	store, err := parseEndpoint(o.Store)
	if err != nil {
		return nil, err
	}
	s := &Store{store: store, registry: o.Registry, http: o.HTTP}
	if s.http == nil {
		s.http = &http.Client{Timeout: 30 * time.Second}
	}
	if o.Query != "" {
		if s.query, err = parseEndpoint(o.Query); err != nil {
			return nil, err
		}
		s.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			asked := r.In.URL.RawQuery
			r.SetURL(s.query.url)
			r.Out.URL.Path, r.Out.URL.RawQuery = s.query.url.Path, asked
			r.Out.Header.Del("Authorization") // the credentials are for us
			r.Out.Header.Del("Cookie")
			s.query.addCredentials(r.Out)
		}}
	}
	return s, nil
}

// Forward forwards a request of the SPARQL protocol to the remote store.
func (s *Store) Forward(w http.ResponseWriter, r *http.Request) {
	if s.proxy == nil {
		http.Error(w, "no SPARQL address is configured for the graph store of this server", http.StatusNotImplemented)
		return
	}
	s.proxy.ServeHTTP(w, r)
}

// sendRequest sends one Graph Store Protocol request about a subgraph.
func (s *Store) sendRequest(ctx context.Context, method, id string, body []byte) ([]byte, int, error) {
	u := *s.store.url
	q := u.Query()
	q.Set("graph", graph.Name(id))
	u.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if method == http.MethodGet { // Virtuoso refuses a PUT with an Accept header
		r.Header.Set("Accept", "application/n-triples, text/turtle;q=0.9")
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/n-triples")
	}
	s.store.addCredentials(r)
	resp, err := s.http.Do(r)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", graph.ErrUnavailable, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", graph.ErrUnavailable, err)
	}
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotFound {
		return nil, resp.StatusCode, fmt.Errorf("%w: %s answered %s: %.200s", graph.ErrUnavailable, s.store.url.Host, resp.Status, raw)
	}
	return raw, resp.StatusCode, nil
}

// hashProperty is the property of a subgraph in the registry that holds its hash and its number of statements.
const hashProperty = "urn:reckon:ns#contentHash"

func graphHash(id string, quads []graph.Quad) (graph.Quad, []byte, error) {
	canonical, err := graph.Canonical(quads)
	if err != nil {
		return graph.Quad{}, nil, err
	}
	var b bytes.Buffer
	if err := graph.WriteNTriples(&b, canonical); err != nil {
		return graph.Quad{}, nil, err
	}
	sum := sha256.Sum256(b.Bytes())
	text := fmt.Sprintf("%s %d", hex.EncodeToString(sum[:]), len(canonical))
	return graph.Quad{S: graph.Node(graph.Name(id)), P: graph.Node(hashProperty), O: graph.Text(text)}, b.Bytes(), nil
}

// withCount fills in the number of statements from the registry's statement about a subgraph.
func withCount(info graph.Info, mark []graph.Quad) graph.Info {
	info.Quads = graph.UnknownQuads
	if len(mark) == 1 {
		if _, n, ok := strings.Cut(mark[0].O.Value, " "); ok {
			_, _ = fmt.Sscan(n, &info.Quads) // it was written by fingerprint
		}
	}
	return info
}

// Get implements graph.Store.
func (s *Store) Get(ctx context.Context, id string) (graph.Info, []graph.Quad, error) {
	info, mark, err := s.registry.Get(ctx, id)
	if err != nil {
		return info, nil, err
	}
	info = withCount(info, mark)
	quads, err := s.readGraph(ctx, id)
	return info, quads, err
}

func (s *Store) readGraph(ctx context.Context, id string) ([]graph.Quad, error) {
	raw, status, err := s.sendRequest(ctx, http.MethodGet, id, nil)
	if err != nil || status == http.StatusNotFound { // stores drop graphs without statements
		return nil, err
	}
	quads, err := graph.ReadTurtle(bytes.NewReader(raw), graph.Name(id), graph.Limits{}) // N-Triples are a subset of Turtle
	if err != nil {
		return nil, fmt.Errorf("%w: %s answered no Turtle: %w", graph.ErrUnavailable, s.store.url.Host, err)
	}
	return quads, nil
}

// Put implements graph.Store.
func (s *Store) Put(ctx context.Context, id string, p graph.Put) (info graph.Info, changed bool, err error) {
	if err := graph.CheckID(id); err != nil {
		return info, false, err
	}
	s.writes.Lock()
	defer s.writes.Unlock()
	have, old, err := s.registry.Get(ctx, id)
	there := err == nil
	if err != nil && !errors.Is(err, graph.ErrNotFound) {
		return info, false, err
	}
	if !there {
		have.Version = 0
	}
	if p.IfVersion != graph.AnyVersion && p.IfVersion != have.Version {
		return have, false, &graph.VersionError{ID: id, Want: p.IfVersion, Have: have.Version}
	}
	quads := make([]graph.Quad, 0, len(p.Quads))
	for _, q := range p.Quads {
		q.G = graph.Term{}
		quads = append(quads, q)
	}
	if p.Merge && there {
		stored, err := s.readGraph(ctx, id)
		if err != nil {
			return info, false, err
		}
		quads = append(renameBlanks(quads), stored...)
	}
	mark, document, err := graphHash(id, quads)
	if err != nil {
		return info, false, err
	}
	same := there && len(old) == 1 && old[0].O == mark.O
	if !same {
		if _, _, err := s.sendRequest(ctx, http.MethodPut, id, document); err != nil {
			return info, false, err
		}
	}
	p.Quads, p.Merge, p.IfVersion = []graph.Quad{mark}, false, graph.AnyVersion
	info, changed, err = s.registry.Put(ctx, id, p)
	return withCount(info, []graph.Quad{mark}), changed, err
}

// renameBlanks renames the blank nodes of new statements so that they differ from stored ones.
func renameBlanks(quads []graph.Quad) []graph.Quad {
	for i := range quads {
		for _, t := range []*graph.Term{&quads[i].S, &quads[i].O} {
			if t.Kind == graph.Blank {
				t.Value = "new" + t.Value
			}
		}
	}
	return quads
}

// Delete implements graph.Store.
func (s *Store) Delete(ctx context.Context, id string, ifVersion int64) (graph.Info, error) {
	s.writes.Lock()
	defer s.writes.Unlock()
	have, _, err := s.registry.Get(ctx, id)
	if err != nil {
		return have, err
	}
	if ifVersion != graph.AnyVersion && ifVersion != have.Version {
		return have, &graph.VersionError{ID: id, Want: ifVersion, Have: have.Version}
	}
	if _, _, err := s.sendRequest(ctx, http.MethodDelete, id, nil); err != nil {
		return have, err
	}
	return s.registry.Delete(ctx, id, graph.AnyVersion)
}

// List implements graph.Store; the numbers of statements are unknown here.
func (s *Store) List(ctx context.Context) ([]graph.Info, error) {
	list, err := s.registry.List(ctx)
	for i := range list {
		list[i].Quads = graph.UnknownQuads
	}
	return list, err
}

// Usage implements graph.Store.
func (s *Store) Usage(ctx context.Context, id string) (graph.Usage, error) {
	return s.registry.Usage(ctx, id)
}

// Check implements graph.Store.
func (s *Store) Check(ctx context.Context) error {
	_, _, err := s.sendRequest(ctx, http.MethodGet, "urn:reckon:check", nil)
	return errors.Join(err, s.registry.Check(ctx))
}
