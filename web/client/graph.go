package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Subgraphs lists the subgraphs that the caller may see.
func (c *Client) Subgraphs(ctx context.Context) ([]Subgraph, error) {
	var list struct {
		Subgraphs []Subgraph `json:"subgraphs"`
	}
	err := c.get(ctx, "/graph/list", nil, &list)
	return list.Subgraphs, err
}

// GraphLinks returns the links of an entity.
func (c *Client) GraphLinks(ctx context.Context, iri string) ([]GraphLink, error) {
	var answer struct {
		Links []GraphLink `json:"links"`
	}
	err := c.get(ctx, "/graph/links", url.Values{"iri": {iri}}, &answer)
	return answer.Links, err
}

// SPARQL runs a query. The answer of a CONSTRUCT or DESCRIBE is a document in Turtle.
func (c *Client) SPARQL(ctx context.Context, query string) (GraphAnswer, error) {
	var answer GraphAnswer
	body, err := c.sendGraph(ctx, http.MethodPost, "/sparql", "application/sparql-query",
		"application/sparql-results+json, text/turtle;q=0.9", strings.NewReader(query), "")
	switch {
	case err != nil:
		return answer, err
	case !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		answer.Turtle = string(body)
		return answer, nil
	}
	return answer, json.Unmarshal(body, &answer)
}

// SPARQLText runs a SPARQL query and returns the answer in a media type. The types for rows are text/csv and
// text/tab-separated-values. The types for statements are text/turtle, application/n-triples and application/ld+json.
func (c *Client) SPARQLText(ctx context.Context, query, media string) ([]byte, error) {
	return c.sendGraph(ctx, http.MethodPost, "/sparql", "application/sparql-query", media, strings.NewReader(query), "")
}

// Subgraph returns the document of a subgraph in a media type; with values, its series include their latest values.
func (c *Client) Subgraph(ctx context.Context, id, media string, values bool) ([]byte, error) {
	path := "/subgraph/" + url.PathEscape(id)
	if values {
		path += "?values=latest"
	}
	return c.sendGraph(ctx, http.MethodGet, path, "", media, nil, "")
}

// PutSubgraph replaces a subgraph by a document, or adds to it. ifVersion is the required current version; empty for any.
func (c *Client) PutSubgraph(ctx context.Context, id, media string, document io.Reader, add bool, ifVersion string) error {
	method := http.MethodPut
	if add {
		method = http.MethodPost
	}
	_, err := c.sendGraph(ctx, method, "/subgraph/"+url.PathEscape(id), media, "application/json", document, ifVersion)
	return err
}

// DeleteSubgraph deletes a subgraph.
func (c *Client) DeleteSubgraph(ctx context.Context, id string) error {
	_, err := c.sendGraph(ctx, http.MethodDelete, "/subgraph/"+url.PathEscape(id), "", "application/json", nil, "")
	return err
}

func (c *Client) sendGraph(ctx context.Context, method, path, media, accept string, body io.Reader, ifVersion string) ([]byte, error) {
	target := c.base.String() + path
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("address %s%s: %w", c.Server(), path, err)
	}
	for name, value := range map[string]string{"Content-Type": media, "Accept": accept, "User-Agent": c.userAgent} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if ifVersion != "" {
		req.Header.Set("If-Match", `"`+ifVersion+`"`)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachableError(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.Server(), err)
	}
	if resp.StatusCode >= 300 {
		return nil, c.responseError(resp, raw)
	}
	return raw, nil
}
