package client

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"reckon/figure"
)

func TestParseTime(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, berlin)
	for in, want := range map[string]string{
		"now":                       "2026-11-21T12:00:00+01:00",
		"2h":                        "2026-11-21T10:00:00+01:00",
		"-2h":                       "2026-11-21T10:00:00+01:00",
		"1d12h":                     "2026-11-20T00:00:00+01:00",
		"2w":                        "2026-11-07T12:00:00+01:00",
		"2y":                        "2024-11-21T12:00:00+01:00",
		"now-1years":                "2025-11-21T12:00:00+01:00",
		"1.5h":                      "2026-11-21T10:30:00+01:00",
		"2026-11-20":                "2026-11-20T00:00:00+01:00",
		"2026-11-20 07:30":          "2026-11-20T07:30:00+01:00",
		"2026-11-20T07:30:00Z":      "2026-11-20T07:30:00Z",
		"2026-11-20T07:30:00+05:30": "2026-11-20T07:30:00+05:30",
		"1795255200":                "2026-11-21T11:00:00+01:00",
		"today":                     "2026-11-21T00:00:00+01:00",
		"noon":                      "2026-11-21T12:00:00+01:00",
		"14:05":                     "2026-11-21T14:05:00+01:00",
		"now-2hours":                "2026-11-21T10:00:00+01:00",
		"now-1day":                  "2026-11-20T12:00:00+01:00",
		"now+90":                    "2026-11-21T12:01:30+01:00",
		"0":                         "1970-01-01T01:00:00+01:00",
	} {
		got, err := ParseTime(in, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q is %v (%v), want %s", in, got.Format(time.RFC3339), err, want)
		}
	}
	for _, in := range []string{"", "yestrday", "2026-13-01", "--2h", "2 hours", "h", "1e30", "-5", "NaN", "5x", "now-", "now2h",
		"now-2fortnights", "25:00", "now--2hours", "2026-11-20T07:30:00ZZ"} {
		if got, err := ParseTime(in, now); err == nil {
			t.Errorf("%q is taken for %v", in, got)
		} else if !strings.Contains(err.Error(), "give a duration before now") {
			t.Errorf("%q: error %v does not say what to write", in, err)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2h", "-1d", "2026-11-20", "1795255200.5", "1e9h", "9999999999w", "....s", "1µs"} {
		f.Add(s)
	}
	now := time.Unix(1795255200, 0)
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err == nil && d < 0 {
			t.Errorf("%q is a duration below 0: %v", s, d)
		}
		if _, err := ParseTime(s, now); err != nil && !strings.Contains(err.Error(), "give ") {
			t.Errorf("%q: error %v", s, err)
		}
	})
}

func FuzzReadEvents(f *testing.F) {
	for _, s := range []string{"data: x\n\n", "event: live\r\ndata: {}\r\ndata:y\r\n\r\n", ": c\n\ndata\n\n", "\r\r\n",
		"data: a\rdata: b\r\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		total := 0
		err := readEvents(bytes.NewReader(in), func(name string, data []byte) error {
			total += len(data)
			if strings.ContainsAny(name, "\r\n") {
				t.Errorf("event name %q", name)
			}
			return nil
		})
		if err != nil || total > len(in) {
			t.Errorf("%d bytes of data in %d bytes, %v", total, len(in), err)
		}
	})
}

func TestReadEvents(t *testing.T) {
	var got []string
	stop := errors.New("stop")
	err := readEvents(strings.NewReader("retry: 5\n\nevent: live\ndata: a\ndata:b\n\ndata: c\r\n\r\n: note\n\nevent: x\n\ndata: cut"),
		func(name string, data []byte) error {
			got = append(got, name+"="+string(data))
			return nil
		})
	if err != nil || strings.Join(got, "|") != "live=a\nb|message=c|=" {
		t.Errorf("events %q, %v", got, err)
	}
	if err := readEvents(strings.NewReader("data: a\n\n"), func(string, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	long := "data: " + strings.Repeat("x", maxEvent+10)
	if err := readEvents(strings.NewReader(long), func(string, []byte) error { return nil }); err == nil {
		t.Error("an endless line is taken")
	}
}

func FuzzPromAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"1"]}]}}`))
	f.Add([]byte(`{"data":{"resultType":"matrix","result":[{"values":[[],[1],[1,"2",3]],"histograms":[[1,{}]]}]}}`))
	f.Add([]byte(`{"data":{"resultType":"scalar","result":null}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var a promAnswer
		if json.Unmarshal(in, &a) != nil {
			return
		}
		r, err := a.toResult()
		if err == nil && r.Series == nil {
			t.Error("series is nil")
		}
	})
}

func TestWriteCSV(t *testing.T) {
	v := 1e-9
	end := time.Date(2026, 11, 21, 12, 0, 0, 5e8, time.FixedZone("CET", 3600))
	rows := []Workload{
		{ID: "a", Name: "x,\"y\"\nz", Nodes: []string{"n1", "n2"}, End: &end, Row: figure.Row{CPUSeconds: &v}, WallSeconds: 7200}}
	var b strings.Builder
	if err := WriteCSV(&b, rows); err != nil {
		t.Fatal(err)
	}
	back, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(back) != 2 {
		t.Fatalf("%d rows, %v", len(back), err)
	}
	got := map[string]string{}
	for i, name := range back[0] {
		got[name] = back[1][i]
	}
	for name, want := range map[string]string{
		"id": "a", "name": "x,\"y\"\nz", "nodes": "n1;n2", "end": "2026-11-21T11:00:00.5Z", "cpu_seconds": "0.000000001",
		"cores_mean": "", "running": "false", "wall_seconds": "7200",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	var nodes strings.Builder
	if err := WriteCSV(&nodes, []Node{{Node: "n1", Sensors: []Sensor{{Sensor: "rapl"}}}}); err != nil ||
		!strings.Contains(nodes.String(), `[{""sensor"":""rapl"",""up"":false}]`) {
		t.Errorf("%s, %v", nodes.String(), err)
	}
}
