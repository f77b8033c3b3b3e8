package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/web/client"
)

func num(v float64) *float64 { return &v }

func example() *client.Report {
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	r := &client.Report{Period: "month", Step: "day", Since: begin, Until: begin.AddDate(0, 1, 0)}
	for i := range 30 {
		at := begin.AddDate(0, 0, i)
		r.Steps = append(r.Steps, client.Usage{From: &at, Capacity: client.Capacity{CoreSeconds: num(64 * 86400), CoreUsedSeconds: num(float64(i) * 86400)}})
	}
	monday := time.Date(1970, 1, 6, 3, 0, 0, 0, time.UTC)
	r.Week = []client.Usage{{From: &monday, Capacity: client.Capacity{CoreSeconds: num(2), CoreUsedSeconds: num(1)}}}
	r.Owners = []client.Usage{{Owner: `<script>alert("x")</script>`, UsageFigures: client.UsageFigures{CPUSeconds: num(7200), GPUSeconds: nil}}}
	r.Nodes = []client.Usage{{Node: "n1", Capacity: client.Capacity{UpSeconds: num(3600)}}}
	return r
}

// TestPageStandsAlone: the page is well-formed, fetches nothing from elsewhere and runs
// no script, whatever people are called.
func TestPageStandsAlone(t *testing.T) {
	for _, r := range []*client.Report{example(), {}} {
		var page bytes.Buffer
		if err := Write(&page, r, "lab & friends"); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		for _, no := range []string{"<script", "src=", "href=", "url(", "@import", "http:", "https:", "ZgotmplZ", "NaN", "<nil>"} {
			if strings.Contains(text, no) {
				t.Errorf("the page holds %q", no)
			}
		}
		d := xml.NewDecoder(strings.NewReader(strings.ReplaceAll(strings.ReplaceAll(text, `<meta charset="utf-8">`, ""), `<meta name="viewport" content="width=device-width, initial-scale=1">`, "")))
		d.Entity, d.Strict = xml.HTMLEntity, true
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("not well formed: %v", err)
			}
		}
	}
}

func TestPageShowsFigures(t *testing.T) {
	var page bytes.Buffer
	if err := Write(&page, example(), "lab"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<title>2026-11-30 00:00: 696 of 1,536 core-hours in use</title>", "Tuesday 03:00 UTC: 50 % in use", "<td>2</td>", "Usage of lab"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	r := example()
	r.Public = true
	page.Reset()
	if err := Write(&page, r, "secret"); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "secret") {
		t.Error("a public page names the site")
	}
}

// TestPageMarksBounds: inexact figures carry a mark, which is explained.
func TestPageMarksBounds(t *testing.T) {
	r := example()
	for want, marked := range []bool{false, true} {
		if marked {
			r.Owners[0].Exactness.Add("cpu_seconds", figure.AtLeast)
			r.Owners[0].Exactness.Add("gpu_seconds", figure.Modelled) // unknown figure
		}
		var page bytes.Buffer
		if err := Write(&page, r, "lab"); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"<td>&gt;=2</td>", "&gt;= at least"} {
			if n := strings.Count(page.String(), text); n != want {
				t.Errorf("%q stands there %d times, want %d", text, n, want)
			}
		}
		if strings.Contains(page.String(), "~–") {
			t.Error("what is not known is marked")
		}
	}
}
