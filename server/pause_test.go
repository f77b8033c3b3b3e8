package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestRestOfTheBuilder(t *testing.T) {
	for rows, want := range map[int]time.Duration{0: 0, 200: 15 * time.Second, 201: 15075 * time.Millisecond, 799: 59925 * time.Millisecond, 800: time.Minute, 100_000: time.Minute} {
		if got := builderRest(rows); got != want {
			t.Errorf("after %d rows: %v, want %v", rows, got, want)
		}
	}
}

func TestHurryOfTheBuilder(t *testing.T) {
	for _, c := range []struct{ least, round, want time.Duration }{
		{0, time.Second, 0},
		{15 * time.Second, 0, 15 * time.Second},
		{time.Minute, 750 * time.Millisecond, 15 * time.Second},
		{time.Minute, 751 * time.Millisecond, 15020 * time.Millisecond},
		{time.Minute, 3 * time.Second, time.Minute},
		{time.Minute, time.Hour, time.Minute},
	} {
		if got := shortenedPause(c.least, c.round); got != c.want {
			t.Errorf("of a rest of %v after a round of %v %v are kept, want %v", c.least, c.round, got, c.want)
		}
	}
}

// TestQuestionEndsTheRest: whoever asks for workloads or usage has the catalogue brought up to date before it would be.
func TestQuestionEndsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{asked: make(chan struct{}, 1)}
		for path, want := range map[string]time.Duration{
			"/api/reckon/v1/workloads": 15 * time.Second, "/api/reckon/v1/usage": 15 * time.Second, "/api/reckon/v1/nodes": time.Minute, "/metrics": time.Minute,
		} {
			s.markInteractive(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
			began := time.Now()
			if err := waitOrRequest(t.Context(), time.Minute, shortenedPause(time.Minute, 0), s.asked); err != nil || time.Since(began) != want {
				t.Errorf("after %s it rests %v, want %v (%v)", path, time.Since(began), want, err)
			}
		}
	})
}

func TestPauseOfTheBuilder(t *testing.T) {
	for _, c := range []struct{ every, round, want time.Duration }{
		{10 * time.Second, 0, 10 * time.Second},
		{10 * time.Second, 100 * time.Millisecond, 10 * time.Second},
		{10 * time.Second, 101 * time.Millisecond, 10100 * time.Millisecond},
		{30 * time.Second, 101 * time.Millisecond, 30 * time.Second},
		{10 * time.Second, 600 * time.Millisecond, time.Minute},
		{10 * time.Second, 10 * time.Minute, time.Minute}, // a catalogue that was built from all history
	} {
		if got := roundInterval(c.every, c.round); got != c.want {
			t.Errorf("after a round of %v every %v: %v, want %v", c.round, c.every, got, c.want)
		}
	}
}
