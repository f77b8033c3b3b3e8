package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeImport records its inputs.
type fakeImport struct{ got []string }

func (f *fakeImport) Import(_ context.Context, o client.ImportOptions, next func() (string, io.Reader, error)) (client.ImportResult, error) {
	for {
		name, in, err := next()
		if errors.Is(err, io.EOF) {
			return client.ImportResult{}, nil
		}
		if err != nil {
			return client.ImportResult{}, err
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return client.ImportResult{}, err
		}
		f.got = append(f.got, fmt.Sprintf("%s %s %s %s", o.Format, o.Site, name, text))
	}
}

// upload sends files as a form does.
func upload(t *testing.T, h http.Handler, target, viewer string, files ...string) *httptest.ResponseRecorder {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i, text := range files {
		part, err := form.CreateFormFile("file", fmt.Sprintf("f%d.csv", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(part, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("X-Test-Viewer", viewer)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestImport: only viewers who may change data import, and each file has its name.
func TestImport(t *testing.T) {
	f := new(fakeImport)
	h := asViewer(api.Options{Backend: apitest.Site(now), Import: f})
	const base = "/api/reckon/v1/import/"
	for _, c := range []struct {
		viewer, target string
		status         int
	}{
		{"", base + "sonar", 401}, {"public", base + "sonar", 403}, {"alice", base + "sonar", 403}, {"support", base + "sonar", 403},
		{"admin", base + "excel", 404}, {"admin", base + "sonar?site=lab", 200}, {"admin", base + "sonar?batch=perhaps", 400},
	} {
		if w := upload(t, h, c.target, c.viewer, "a", "b"); w.Code != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.viewer, c.target, w.Code, c.status, w.Body)
		}
	}
	if want := []string{"sonar lab f0.csv a", "sonar lab f1.csv b"}; fmt.Sprint(f.got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", f.got, want)
	}
	if w := send(t, h, http.MethodPost, base+"sonar", "a=b", "X-Test-Viewer", "admin"); w.Code != 400 {
		t.Errorf("a form without files: %d %s", w.Code, w.Body)
	}
}
