package server

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/interop/importer"
	"reckon/metric"
	"reckon/server/backup"
	"reckon/store/tsdb"
)

// A question about many days is answered from hours and reports it, with the figures of the
// samples; hours are in a backup, and are none where the samples are gone too soon.
func TestHourly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: dir, Receive: true, Retention: 90 * 24 * time.Hour, Hourly: 365 * 24 * time.Hour, Version: "test"})
	now := time.Now()
	today := now.UTC().Truncate(24 * time.Hour)
	h := &tsdb.History{}
	past := h.Series(labels.FromStrings("__name__", "c_total", "node", "n1"))
	for at := today.Add(-10 * 24 * time.Hour); at.Before(now.Add(-time.Minute)); at = at.Add(time.Minute) {
		if err := past.Add(at.UnixMilli(), at.Sub(today.Add(-10*24*time.Hour)).Seconds()/2); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.samples.(importer.Store).ImportBlocks(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	live := &metric.Batch{Time: now}
	live.Add(metric.NewSeries(&metric.Desc{Name: "live", Kind: metric.Gauge, Help: "x"}), 1)
	if err := s.series.Append(t.Context(), nil, live); err != nil {
		t.Fatal(err)
	}
	if err := s.hourly.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at := s.hourly.Through(); !at.Equal(today) {
		t.Fatalf("hours were made up to %s, not %s", at, today)
	}
	ask := func(text string, step time.Duration) (v []float64, infos []string) {
		t.Helper()
		q := url.Values{"query": {text}, "step": {strconv.Itoa(int(step.Seconds()))}, "start": {strconv.FormatInt(today.Add(-8*24*time.Hour).Unix(), 10)}, "end": {strconv.FormatInt(today.Unix(), 10)}}
		r, err := s.InProcessClient().Get("http://x/api/v1/query_range?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var got struct {
			Error string
			Infos []string
			Data  struct {
				Result []struct{ Values [][2]any }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || len(got.Data.Result) != 1 {
			t.Fatalf("%s: %+v (%v)", text, got, err)
		}
		for _, p := range got.Data.Result[0].Values {
			x, err := strconv.ParseFloat(p[1].(string), 64)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, x)
		}
		return v, got.Infos
	}
	v, infos := ask("rate(c_total[1d])", 24*time.Hour)
	if len(v) != 9 || len(infos) != 1 || !strings.Contains(infos[0], "hourly values were used") {
		t.Fatalf("%v %q", v, infos)
	}
	for _, x := range v {
		if math.Abs(x-0.5) > 0.001 {
			t.Errorf("%v, want half a second each second", v)
			break
		}
	}
	if v, infos := ask("c_total", 3*time.Hour); len(v) != 65 || len(infos) != 1 {
		t.Errorf("at every third hour: %d values, %q", len(v), infos)
	}

	copied := filepath.Join(t.TempDir(), "copied")
	var archive bytes.Buffer
	if err := s.newDataCopier().Backup(t.Context(), func() io.Writer { return &archive }); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Extract(&archive, copied); err != nil {
		t.Fatal(err)
	}
	archive.Reset()
	if err := BackupFiles(t.Context(), copied, slog.New(slog.DiscardHandler), &archive); err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "again")
	if _, err := backup.Extract(&archive, again); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{copied, again} {
		if _, err := os.Stat(filepath.Join(dir, HourlyDir, "state.json")); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []Config{{Hourly: time.Hour, Retention: time.Hour}, {Retention: 90 * 24 * time.Hour}} {
		c.Listen, c.Data = "127.0.0.1:0", t.TempDir()
		if none := opened(t, c); none.hourly != nil {
			t.Errorf("%v and %v keep hours", c.Retention, c.Hourly)
		}
	}
}
