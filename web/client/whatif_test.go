package client

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The server rejects an empty time, so none is sent if it is unset.
func TestWhatIfWithoutTime(t *testing.T) {
	sent := []bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		_, has := r.Form["since"]
		sent = append(sent, has)
		_, _ = w.Write([]byte(`{"now":1,"then":2,"added":[],"removed":[]}`))
	}))
	defer s.Close()
	c, err := New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, since := range []time.Time{{}, time.Now()} {
		if d, err := c.WhatIf(t.Context(), []byte("rules: {}"), since); err != nil || d.Then != 2 {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if len(sent) != 2 || sent[0] || !sent[1] {
		t.Errorf("since was sent: %v", sent)
	}
}
