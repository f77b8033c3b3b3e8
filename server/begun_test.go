package server

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"

	"reckon/store/tsdb"
	"reckon/transport/limits"
)

// manySeries is a request of n series of one node.
func manySeries(from, n int) []byte {
	r := &prompb.WriteRequest{}
	for i := from; i < from+n; i++ {
		r.Timeseries = append(r.Timeseries, prompb.TimeSeries{
			Labels:  []prompb.Label{{Name: "__name__", Value: "x"}, {Name: "i", Value: fmt.Sprint(i)}, {Name: "node", Value: "n1"}},
			Samples: []prompb.Sample{{Timestamp: time.Now().UnixMilli(), Value: 1}},
		})
	}
	raw, err := proto.Marshal(r)
	if err != nil {
		panic(err)
	}
	return s2.EncodeSnappy(nil, raw)
}

func sendSeries(t *testing.T, s *Server, from, n int) int {
	t.Helper()
	return postRaw(t, "http://"+s.Addr()+"/api/v1/write", manySeries(from, n))
}

// One sender that makes a new series with every sample is stopped, and a site that had as many
// before the bound is not.
func TestNewSeriesBound(t *testing.T) {
	config := Config{Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data"), Receive: true, Retention: 90 * 24 * time.Hour, Version: "test"}
	t.Run("new site", func(t *testing.T) {
		s := opened(t, config)
		if code := sendSeries(t, s, 0, limits.DefaultNodeSeries); code != http.StatusNoContent {
			t.Fatal(code)
		}
		if code := sendSeries(t, s, 0, limits.DefaultNodeSeries); code != http.StatusNoContent {
			t.Errorf("the same again: %d", code)
		}
		if code := sendSeries(t, s, limits.DefaultNodeSeries, 1); code != http.StatusBadRequest {
			t.Errorf("one more: %d", code)
		}
		if got := scrape(t, s); got[`reckon_server_ingest_refused_samples_total{sender="local",reason="limit"}`]+got[`reckon_server_ingest_refused_samples_total{reason="limit",sender="local"}`] != 1 {
			t.Error("what was refused is not counted")
		}
	})
	if err := os.Remove(filepath.Join(config.Data, begunFile)); err != nil {
		t.Fatal(err)
	}
	t.Run("upgraded", func(t *testing.T) {
		s := opened(t, config)
		if code := sendSeries(t, s, limits.DefaultNodeSeries, limits.DefaultNodeSeries+1); code != http.StatusNoContent {
			t.Errorf("more than the default where there was more before: %d", code)
		}
	})
	t.Run("again", func(t *testing.T) { // what was learned is kept
		s := opened(t, config)
		if code := sendSeries(t, s, 3*limits.DefaultNodeSeries, limits.DefaultNodeSeries+1); code != http.StatusNoContent {
			t.Errorf("after a restart: %d", code)
		}
	})
}

func TestLearnBegun(t *testing.T) {
	s, err := tsdb.Open(tsdb.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	app := s.AppenderV2(t.Context())
	for node, n := range map[string]int{"few": limits.DefaultNodeSeries / 2, "many": limits.DefaultNodeSeries/2 + 1} {
		for i := range n {
			if _, err := app.Append(0, labels.FromStrings("__name__", "x", "node", node, "i", fmt.Sprint(i)), 0, time.Now().UnixMilli(), 1, nil, nil, storage.AOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	b, err := countSeries(s)
	if err != nil || len(b.Nodes) != 1 || b.Nodes["\x00many"] != limits.DefaultNodeSeries+2 || b.Series != 2*(limits.DefaultNodeSeries+1) {
		t.Errorf("%+v, %v", b, err)
	}
}

func postRaw(t *testing.T, url string, body []byte) int {
	t.Helper()
	r, err := http.Post(url, "application/x-protobuf", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}
