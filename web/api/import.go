package api

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"reckon/access"
	"reckon/web/client"
)

// Import imports data of other programs. next returns one input after the other, and io.EOF after the last. Each input
// is valid until the next call.
type Import interface {
	Import(ctx context.Context, o client.ImportOptions, next func() (name string, in io.Reader, err error)) (client.ImportResult, error)
}

// maxImport limits the body of one import, bytes; it is read as a stream.
const maxImport = 64 << 30

func (s *server) importRoutes() []route {
	text := schema{"type": "string"}
	return []route{{
		path: "/api/reckon/v1/import/{format}", method: http.MethodPost, raw: true, summary: "Import history",
		doc: "Takes what sonar or sacct wrote, or the data API of Waggle answered, as history: multipart/form-data with one part for " +
			"each file, plain or gzip. Importing the same data again adds nothing. Lines that cannot be parsed are counted and the " +
			"first hundred listed; the rest is imported.",
		params: []param{
			{name: "format", doc: "The program that wrote the files.", schema: enumSchema(client.ImportFormats...), inPath: true},
			{name: "site", doc: "Site of input that names no cluster.", schema: text},
			{name: "force", doc: "The site is that of all input, also of what names a cluster.", schema: schema{"type": "boolean"}},
			{name: "batch", doc: "sonar: jobs without an epoch are those of the batch system.", schema: schema{"type": "boolean"}},
			{name: "fields", doc: "sacct: names of the columns of an export without a line of names, with commas between them.",
				schema: text},
			{name: "zone", doc: "sacct: time zone of the times, such as Europe/Oslo; without it the server's.", schema: text},
		},
		answer: client.ImportResult{}, fails: []int{400, 401, 403, 404, 503}, role: access.Admin, handle: s.serveImport,
	}}
}

func (s *server) serveImport(w http.ResponseWriter, r *http.Request, q *query) error {
	o := client.ImportOptions{Format: r.PathValue("format")}
	for name, into := range map[string]*string{"site": &o.Site, "fields": &o.Fields, "zone": &o.Zone} {
		*into, _ = q.get(name)
	}
	for name, into := range map[string]*bool{"force": &o.Force, "batch": &o.Batch} {
		if v, ok := q.get(name); ok {
			if v != "true" && v != "false" {
				q.reject(name, v, "give true or false")
			}
			*into = v == "true"
		}
	}
	switch {
	case q.err != nil:
		return q.err
	case !slices.Contains(client.ImportFormats, o.Format):
		return newError(http.StatusNotFound, "give "+strings.Join(client.ImportFormats, ", "), "nothing is imported from %q", o.Format)
	case s.Import == nil:
		return newError(http.StatusNotFound, "ask a server that keeps series", "this server does not import")
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" || params["boundary"] == "" {
		return newError(http.StatusBadRequest, "send multipart/form-data with one part for each file, as `reckon import` and curl -F do",
			"the body is of type %q", r.Header.Get("Content-Type"))
	}
	// History may take longer to upload than the server's read deadline for other requests.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	parts := multipart.NewReader(http.MaxBytesReader(w, r.Body, maxImport), params["boundary"])
	var refused error
	result, err := s.Import.Import(r.Context(), o, func() (string, io.Reader, error) {
		for {
			part, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) {
				return "", nil, io.EOF
			}
			if err != nil {
				refused = newError(http.StatusBadRequest, "what was sent before is imported; send all again", "cannot read the body: %v",
					err)
				return "", nil, err
			}
			if name := strings.TrimSpace(part.FileName()); name != "" {
				return name, part, nil
			}
		}
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return err
	}
	if result.Bad == nil {
		result.Bad = []client.ImportBad{}
	}
	writeJSON(w, http.StatusOK, result)
	return nil
}
