package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
)

// ImportFormats are the importable formats, named after the programs that write them.
var ImportFormats = []string{"sonar", "sacct", "waggle"}

// ImportOptions hold the format, and information that the input lacks.
type ImportOptions struct {
	Format string // one of ImportFormats
	// Site is the label of input without a cluster name; with Force, of all input.
	Site  string
	Force bool
	// Batch assigns jobs without an epoch to the batch system (sonar).
	Batch bool
	// Fields are the columns of an export without a header line. Zone is the time zone of its times
	// (sacct), by name such as Europe/Oslo.
	Fields string
	Zone   string
	// Progress is called from time to time with a description of the progress; it may be nil. Several goroutines may call it.
	Progress func(text string)
}

// Query encodes the options as parameters of POST /api/reckon/v1/import/FORMAT.
func (o ImportOptions) Query() url.Values {
	q := url.Values{}
	for key, v := range map[string]string{"site": o.Site, "fields": o.Fields, "zone": o.Zone} {
		if v != "" {
			q.Set(key, v)
		}
	}
	for key, v := range map[string]bool{"force": o.Force, "batch": o.Batch} {
		if v {
			q.Set(key, "true")
		}
	}
	return q
}

// ImportFile is one input.
type ImportFile struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// Import sends files to the server in a single request, and returns the result.
func (c *Client) Import(ctx context.Context, o ImportOptions, files []ImportFile) (ImportResult, error) {
	target, err := url.Parse(c.base.String() + "/api/reckon/v1/import/" + url.PathEscape(o.Format))
	if err != nil {
		return ImportResult{}, fmt.Errorf("address of %s: %w", c.Server(), err)
	}
	target.RawQuery = o.Query().Encode()
	body, w := io.Pipe()
	form := multipart.NewWriter(w)
	sent := make(chan error, 1)
	go func() {
		err := sendFiles(form, files)
		if o.Progress != nil {
			o.Progress("all is sent; the server takes it in")
		}
		_ = w.CloseWithError(errors.Join(err, form.Close()))
		sent <- err
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), body)
	if err != nil {
		return ImportResult{}, err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	defer context.AfterFunc(ctx, func() { _ = body.CloseWithError(ctx.Err()) })() // the transport waits for it
	resp, err := c.http.Do(req)
	_ = body.CloseWithError(io.ErrClosedPipe) // ends the sender, also if the server did not read everything
	var local error
	select {
	case local = <-sent:
	case <-ctx.Done(): // the sender may wait for its input
	}
	if err != nil {
		if local != nil && !errors.Is(local, io.ErrClosedPipe) {
			return ImportResult{}, local
		}
		return ImportResult{}, c.unreachableError(ctx, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return ImportResult{}, fmt.Errorf("read the answer of %s: %w", c.Server(), err)
	}
	if resp.StatusCode != http.StatusOK {
		return ImportResult{}, c.responseError(resp, raw)
	}
	var r ImportResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s did not answer with reckon's JSON (%w)", c.Server(), err)
	}
	return r, nil
}

func sendFiles(form *multipart.Writer, files []ImportFile) error {
	for _, f := range files {
		part, err := form.CreateFormFile("file", f.Name)
		if err != nil {
			return err
		}
		in, err := f.Open()
		if err != nil {
			return err
		}
		_, err = io.Copy(part, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}
