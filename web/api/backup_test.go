package api_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeBackup writes a text, and then returns err.
type fakeBackup struct {
	text string
	err  error
}

func (f fakeBackup) Backup(_ context.Context, begin func() io.Writer) error {
	if f.text == "" {
		return f.err
	}
	_, err := io.WriteString(begin(), f.text)
	return errors.Join(err, f.err)
}

func TestBackup(t *testing.T) {
	for _, c := range []struct {
		b    api.Backup
		want string
	}{
		{fakeBackup{"all", nil}, "all"},
		{fakeBackup{strings.Repeat("half", 1<<18), errors.New("disk")}, "was interrupted"},
		{fakeBackup{"", errors.New("no room")}, "no room"},
		{nil, "keeps nothing"},
	} {
		s := httptest.NewServer(api.New(api.Options{Backend: &apitest.Backend{}, Backup: c.b}))
		defer s.Close()
		cl, err := client.New(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		got := ""
		if err := cl.Backup(t.Context(), &b); err != nil {
			got = err.Error()
		} else {
			got = b.String()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("got %.200s, want %s", got, c.want)
		}
	}
}
