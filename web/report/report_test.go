package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
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

var percentages = regexp.MustCompile(`([0-9][0-9,.]*) %`)

// TestPageSharesWithinWhole: no share of the page is above 100 %. CPU time is of a program, held time of workloads that run several;
// a person's sessions use cores that no request holds.
func TestPageSharesWithinWhole(t *testing.T) {
	r := example()
	row := func(cpu, held float64) client.Usage {
		return client.Usage{UsageFigures: client.UsageFigures{CPUSeconds: num(cpu), HeldCoreSeconds: num(held)}, CapacityShare: num(0.2)}
	}
	r.Commands = []client.Usage{row(3.6e6, 114), row(50, 100)}
	r.Commands[0].Command, r.Commands[1].Command = "awk", "sort"
	r.Owners = []client.Usage{row(1010, 1000), row(1500, 1000), row(700, 1000)}
	var page bytes.Buffer
	if err := Write(&page, r, "lab"); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	shares := percentages.FindAllStringSubmatch(text, -1)
	for _, m := range shares {
		if v, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64); err != nil || v > 100 {
			t.Errorf("the page holds %q", m[0])
		}
	}
	if len(shares) < 6 {
		t.Errorf("the page has %d shares, want more", len(shares))
	}
	for want, n := range map[string]int{"<td>all *</td>": 1, "<td>70 %</td>": 1, "* Used with work that has no allocation": 1, "<td>50 %</td>": 0} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q stands there %d times, want %d", want, got, n)
		}
	}
}

// TestPageOfImportedTime: where no node was measured, what jobs held and used is drawn, and each share names its whole.
func TestPageOfImportedTime(t *testing.T) {
	r := example()
	figures := client.UsageFigures{CPUSeconds: num(3600), HeldCoreSeconds: num(4 * 3600)}
	r.Steps[3].Capacity, r.Steps[3].UsageFigures = client.Capacity{}, figures
	r.Steps[4].UsageFigures = client.UsageFigures{CPUSeconds: num(80 * 86400), HeldCoreSeconds: num(128 * 86400)} // one node of many is measured
	r.Week[0].Capacity, r.Week[0].UsageFigures = client.Capacity{}, figures
	r.Owners[0].UsedShare = num(0.25)
	var page bytes.Buffer
	if err := Write(&page, r, "lab"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2026-11-04 00:00: 1 of 4 core-hours allocated were used", "2026-11-05 00:00: 1,920 of 3,072 core-hours allocated were used",
		"2026-11-30 00:00: 696 of 1,536 core-hours in use", "Tuesday 03:00 UTC: 4 core-hours allocated", "where nodes were not measured", "<th>Of used</th><th>Of capacity</th>",
		"<td>25 %</td><td>–</td>"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}
