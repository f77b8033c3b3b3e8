package influx

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/store"
)

func forecastOf(points ...float64) store.Forecast {
	f := store.Forecast{Subject: "node", Site: "lab", Name: "n 1", Figure: "watts", Made: time.Date(2026, 3, 20, 2, 0, 0, 0, time.UTC), Step: time.Hour, Models: []string{"ets", "theta"}, Point: points}
	for _, v := range points {
		f.Low, f.High = append(f.Low, v/2), append(f.High, v*2)
	}
	return f
}

// TestWrite compares the lines with those that the storage service of GLACIATION reads.
func TestWrite(t *testing.T) {
	var bodies []string
	var asked *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		bodies, asked = append(bodies, string(raw)), r
		w.WriteHeader(http.StatusNoContent)
	}))
	defer s.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := New(s.URL+"?org=o&bucket=b&token_file="+token, 840)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), []store.Forecast{forecastOf(100, math.NaN(), 110.5), {Subject: "site", Figure: "cores", Made: time.Unix(0, 0), Step: time.Hour, Point: []float64{0}, Low: []float64{0}, High: []float64{0}}}); err != nil {
		t.Fatal(err)
	}
	const want = `forecasting,aggregation_interval=3600,forecasting_model=ets+theta,forecasting_time=2026-03-20,input_size=840,metricId=node/lab/n\ 1/watts forecasting_lower=50,forecasting_upper=200,forecasting_value=100 1773972000
forecasting,aggregation_interval=3600,forecasting_model=ets+theta,forecasting_time=2026-03-20,input_size=840,metricId=node/lab/n\ 1/watts forecasting_lower=55.25,forecasting_upper=221,forecasting_value=110.5 1773979200
forecasting,aggregation_interval=3600,forecasting_model=none,forecasting_time=1970-01-01,input_size=840,metricId=site///cores forecasting_lower=0,forecasting_upper=0,forecasting_value=0 0
`
	if len(bodies) != 1 || bodies[0] != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(bodies, "--\n"), want)
	}
	if q := asked.URL.Query(); asked.URL.Path != "/api/v2/write" || q.Get("org") != "o" || q.Get("bucket") != "b" || q.Get("precision") != "s" || q.Has("token_file") || asked.Header.Get("Authorization") != "Token secret" {
		t.Errorf("%s, %q", asked.URL, asked.Header.Get("Authorization"))
	}
	bodies = nil
	if err := w.Write(t.Context(), []store.Forecast{forecastOf(math.NaN())}); err != nil || bodies != nil {
		t.Errorf("nothing to write: %v, %q", err, bodies)
	}
	long := make([]store.Forecast, 250)
	for i := range long {
		long[i] = forecastOf(make([]float64, 48)...)
	}
	if err := w.Write(t.Context(), long); err != nil || len(bodies) != 3 || strings.Count(strings.Join(bodies, ""), "\n") != 250*48 {
		t.Errorf("%v, %d requests", err, len(bodies))
	}
}

func TestErrors(t *testing.T) {
	for _, address := range []string{"", "influx:8086", "ftp://h?bucket=b", "http://h:8086/api/v2/write?org=o"} {
		if _, err := New(address, 1); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such bucket", http.StatusNotFound) }))
	w, err := New(s.URL+"/api/v2/write?bucket=b", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), []store.Forecast{forecastOf(1)}); err == nil || !strings.Contains(err.Error(), "404 Not Found: no such bucket") {
		t.Error(err)
	}
	s.Close()
	if err := w.Write(t.Context(), []store.Forecast{forecastOf(1)}); err == nil {
		t.Error("a server that is away takes forecasts")
	}
}
