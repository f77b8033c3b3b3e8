package graphfeed

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// remoteGraph is the API of the knowledge graph of a server (web/graphapi). It is safe for concurrent use.
type remoteGraph struct {
	server, tokenFile string
	http              *http.Client
}

// requestTimeout limits the time of a request, because others wait in the queue.
const requestTimeout = 30 * time.Second

func newRemote(o Options) (*remoteGraph, error) {
	u, err := url.Parse(o.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no address of a server; write one such as https://reckon:9870", o.Server)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: maxRequests, IdleConnTimeout: time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", o.CAFile)
		}
		transport.TLSClientConfig.RootCAs = roots
	}
	return &remoteGraph{strings.TrimSuffix(o.Server, "/"), o.TokenFile, &http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

func (r *remoteGraph) sendRequest(ctx context.Context, method, path string, body []byte, header http.Header, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, r.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if header != nil {
		req.Header = header
	}
	if r.tokenFile != "" {
		token, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	res, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 500)) // use the part that could be read
		return &statusError{res.StatusCode, strings.TrimSpace(string(text))}
	}
	if into != nil {
		return json.NewDecoder(res.Body).Decode(into)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func subgraphPath(id string) string { return "/subgraph/" + url.PathEscape(id) }

// replaceSubgraph replaces a subgraph.
func (r *remoteGraph) replaceSubgraph(ctx context.Context, s subgraph, body []byte) error {
	h := http.Header{"Content-Type": {"application/n-triples"}, "Reckon-Owner": {s.owner}}
	if !s.at.IsZero() {
		h.Set("Reckon-Time", s.at.UTC().Format(time.RFC3339))
	}
	if err := r.sendRequest(ctx, http.MethodPut, subgraphPath(s.id), body, h, nil); err != nil {
		return fmt.Errorf("write %s: %w", s.id, err)
	}
	return nil
}

// deleteSubgraph deletes a subgraph. A missing one counts as deleted.
func (r *remoteGraph) deleteSubgraph(ctx context.Context, id string) error {
	err := r.sendRequest(ctx, http.MethodDelete, subgraphPath(id), nil, nil, nil)
	var status *statusError
	if err == nil || errors.As(err, &status) && status.code == http.StatusNotFound {
		return nil
	}
	return fmt.Errorf("delete %s: %w", id, err)
}

// listSubgraphs returns the ids of all subgraphs that the operator may see.
func (r *remoteGraph) listSubgraphs(ctx context.Context) ([]string, error) {
	var versions map[string]int64
	if err := r.sendRequest(ctx, http.MethodGet, "/subgraphs_versions", nil, nil, &versions); err != nil {
		return nil, fmt.Errorf("list the subgraphs: %w", err)
	}
	ids := slices.Collect(maps.Keys(versions))
	return ids, nil
}
