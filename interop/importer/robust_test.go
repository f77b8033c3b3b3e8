package importer

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"reckon/store"
)

// TestFieldsThatCannotBeRead: a field that cannot be read costs itself only, what sacct --units writes is read, and equal errors are one.
func TestFieldsThatCannotBeRead(t *testing.T) {
	const head = "JobID|JobIDRaw|User|State|Submit|Start|End|ReqNodes|NNodes|AllocTRES|UserCPU|MaxRSS|ReqMem|ExitCode|NodeList|JobName\n"
	line := func(id, reqNodes, nodes, cpu, rss, mem, exit string) string {
		return id + "|" + id + "|a|COMPLETED|2025-03-01T09:00:00|2025-03-01T10:00:00|2025-03-01T11:00:00|" + reqNodes + "|" + nodes +
			"|cpu=2,mem=2G,node=1|" + cpu + "|" + rss + "|" + mem + "|" + exit + "|n1|x\n"
	}
	l := newLab(t)
	res := l.take("a.sacct", head+
		line("1", "0.00G", "0.00G", "00:30:00", "0.50G", "2.00G", "0:0")+ // sacct --units=G
		line("2", "1", "1", "00:30:00", "1,5G", "2G", "0:0")+
		line("3", "one", "1", "00:30:00", "512M", "2G", "0:0")+
		line("4", "1", "1", "half an hour", "512M", "2G", "0:0")+
		line("5", "1", "1", "00:30:00", "512M", "much", "0:0")+
		line("6", "1", "1", "00:30:00", "512M", "2G", "zero")+
		line("7", "1", "1", "9999-00:30:00", "512M", "2G", "0:0")+
		line("8", "1", "1", "00:30:00", "2,5G", "2G", "0:0"))
	if res.Taken != 8 || res.BadCount != 0 || res.BadFields != 7 || len(res.Bad) != 6 {
		t.Fatalf("%+v", res)
	}
	for _, b := range res.Bad {
		if comma := strings.Contains(b.Error, "MaxRSS"); comma && (b.Count != 2 || b.Line != 3) {
			t.Errorf("%+v", b)
		}
	}
	rows, _, err := l.facts.Workloads(t.Context(), store.Filter{Sort: "id"})
	if err != nil || len(rows) != 8 {
		t.Fatal(rows, err)
	}
	for i, w := range rows {
		cpu, peak := w.CPUSeconds == nil || *w.CPUSeconds != 1800, w.MemoryPeakBytes == nil || *w.MemoryPeakBytes != 512<<20
		if cpu != (i == 3 || i == 6) || peak != (i == 1 || i == 7) || figureOf(w.AllocatedCores) != 2 {
			t.Errorf("%s: %v %v %v", w.ID, w.CPUSeconds, w.MemoryPeakBytes, w.AllocatedCores)
		}
	}
}

// TestFieldsOfJSONThatCannotBeRead: a field of sacct --json that has another format costs itself only, is counted, and is named once.
func TestFieldsOfJSONThatCannotBeRead(t *testing.T) {
	job := func(id int, limit, code, more string) string {
		return fmt.Sprintf(`{"job_id":%d,"user":"a","name":"x","nodes":"n1","state":{"current":["COMPLETED"],"reason":"None"},`+
			`"time":{"submission":1740819600,"start":1740823200,"end":1740826800,"limit":%s,"suspended":null,"elapsed":""},"exit_code":%s,`+
			`"tres":{"allocated":[{"type":"cpu","count":2}]}%s}`, id, limit, code, more)
	}
	step := func(seconds string) string {
		return `,"steps":[{"step":{"id":"batch","name":"batch"},"state":["COMPLETED"],"time":{"start":1740823200,"end":1740826800,"total":{"seconds":` +
			seconds + `}}}]`
	}
	good, unset := `{"set":true,"infinite":false,"number":60}`, `{"set":false,"infinite":false,"number":0}`
	status := `{"return_code":0}`
	l := newLab(t)
	res := l.take("a.sacct", `{"jobs":[`+strings.Join([]string{
		job(1, good, status, step("30")), job(2, unset, `{"return_code":{"set":false,"number":0}}`, step("30")),
		job(3, `"an hour"`, status, step("30")), job(4, `true`, status, step(`"half"`)), job(5, `[60]`, `"zero"`, step("30")),
		job(6, good, `{"return_code":"none"}`, step(`{"set":true,"number":"much"}`)), job(7, good, status, `,"association":"a"`),
	}, ",")+"]}")
	if res.Taken != 7 || res.BadCount != 0 || res.BadFields != 8 || len(res.Bad) != 4 {
		t.Fatalf("%+v", res.ImportResult)
	}
	want := map[string]int{"job 3: time.limit": 3, "job 4: steps.time.total.seconds": 2, "job 5: exit_code": 2, "job 7: association": 1}
	for _, b := range res.Bad {
		field, _, _ := strings.Cut(b.Error, " has an unknown format")
		if want[field] != b.Count {
			t.Errorf("%+v", b)
		}
		delete(want, field)
	}
	if len(want) > 0 {
		t.Errorf("not named: %v", want)
	}
	rows, _, err := l.facts.Workloads(t.Context(), store.Filter{Sort: "id"})
	if err != nil || len(rows) != 7 {
		t.Fatal(rows, err)
	}
	for i, w := range rows {
		if figureOf(w.AllocatedCores) != 2 || (figureOf(w.CPUSeconds) == 30) != (i < 3 || i == 4) {
			t.Errorf("%s: %v cores, %v s", w.ID, w.AllocatedCores, w.CPUSeconds)
		}
	}
}

// TestErrorsOfOneKind: an export in which a field of each job, task and step is bad has one line for the field.
func TestErrorsOfOneKind(t *testing.T) {
	text := "JobID|JobIDRaw|User|State|Start|End|MaxRSS\n"
	for i, id := range []string{"1", "1.batch", "1.extern", "1.0", "2_1", "2_1.batch", "3+0", "3+0.1"} {
		text += fmt.Sprintf("%s|%[1]s|a|COMPLETED|2025-03-01T10:00:00|2025-03-01T11:00:00|%s\n", id, strings.Repeat("much ", i+1))
	}
	res := newLab(t).take("a.sacct", text+"4|4|a|COMPLETED|soon|2025-03-01T11:00:00|\n5_1|5|a|COMPLETED|\"later\"|2025-03-01T11:00:00|\n")
	if res.Taken != 3 || res.BadFields != 8 || len(res.Bad) != 2 || res.Bad[0].Count != 8 || res.Bad[1].Count != 2 {
		t.Errorf("%+v", res.ImportResult)
	}
}

// TestNothingTaken: a file without a readable record is counted, and why is stated once.
func TestNothingTaken(t *testing.T) {
	l := newLab(t)
	res := l.take("a.sacct", "JobID|JobName|Partition|Account|AllocCPUS|State|ExitCode\n1|a|p|c|1|COMPLETED|0:0\n2|a|p|c|1|COMPLETED|0:0\n",
		"b.sacct", accountingHead)
	if res.Unread != 1 || res.Waiting != 0 || res.BadCount != 1 || !strings.Contains(res.Bad[0].Error, "no columns Start and End") {
		t.Errorf("%+v", res)
	}
}

// TestSetBackClock: where clocks were set back an hour, the time that a job ran shows which of two times is meant. Oslo, 2025-10-26: 03:00
// summer time is followed by 02:00.
func TestSetBackClock(t *testing.T) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		t.Skip(err)
	}
	const head = "JobID|User|State|Submit|Start|End|ElapsedRaw|Suspended|AllocTRES|NodeList\n"
	for name, c := range map[string]struct{ line, start, end string }{
		"over the hour": {"1|a|COMPLETED|2025-10-26T01:00:00|2025-10-26T01:30:00|2025-10-26T02:10:00|6000|00:00:00|cpu=4|n1",
			"2025-10-25T23:30:00Z", "2025-10-26T01:10:00Z"},
		"before it": {"1|a|COMPLETED|2025-10-26T01:00:00|2025-10-26T01:30:00|2025-10-26T02:10:00|2400|00:00:00|cpu=4|n1",
			"2025-10-25T23:30:00Z", "2025-10-26T00:10:00Z"},
		"end before start": {"1|a|COMPLETED|2025-10-26T01:00:00|2025-10-26T02:50:00|2025-10-26T02:10:00|1200|00:00:00|cpu=4|n1",
			"2025-10-26T00:50:00Z", "2025-10-26T01:10:00Z"},
		"out of the second": {"1|a|COMPLETED|2025-10-26T02:05:00|2025-10-26T02:10:00|2025-10-26T03:10:00|3600|00:00:00|cpu=4|n1",
			"2025-10-26T01:10:00Z", "2025-10-26T02:10:00Z"},
		"out of the first": {"1|a|COMPLETED|2025-10-26T02:05:00|2025-10-26T02:10:00|2025-10-26T03:10:00|7200|00:00:00|cpu=4|n1",
			"2025-10-26T00:10:00Z", "2025-10-26T02:10:00Z"},
		"suspended": {"1|a|COMPLETED|2025-10-26T01:00:00|2025-10-26T01:30:00|2025-10-26T02:10:00|5400|00:10:00|cpu=4|n1",
			"2025-10-25T23:30:00Z", "2025-10-26T01:10:00Z"},
	} {
		l := newLab(t)
		l.o.Zone = oslo
		res := l.take("a.sacct", head+c.line+"\n")
		rows, _, err := l.facts.Workloads(t.Context(), store.Filter{})
		if err != nil || len(rows) != 1 || res.BadCount != 0 {
			t.Fatalf("%s: %+v %v %+v", name, rows, err, res)
		}
		w := rows[0]
		if got := w.Start.UTC().Format(time.RFC3339) + " " + w.End.UTC().Format(time.RFC3339); got != c.start+" "+c.end {
			t.Errorf("%s: %s, want %s %s", name, got, c.start, c.end)
		}
		if w.Submit.After(w.Start) {
			t.Errorf("%s: submitted at %s, after its start", name, w.Submit)
		}
	}
}

// TestSacctJSON: what sacct --json writes gives the rows of its text: both were recorded on one cluster.
func TestSacctJSON(t *testing.T) {
	f, err := os.Open("../scheduler/slurmctl/testdata/sacct-multistep-22.05.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	res := l.take("a.sacct", string(raw))
	if res.Taken == 0 || res.BadCount != 0 {
		t.Fatalf("%+v", res)
	}
	if again := l.take("a.sacct", string(raw)); again.Taken != 0 || again.Known != res.Taken {
		t.Errorf("again: %+v", again)
	}
	if cut := newLab(t).take("a.sacct", string(raw[:len(raw)-2000])); cut.BadCount != 1 {
		t.Errorf("cut off: %+v", cut)
	}
	rows, _, err := l.facts.Workloads(t.Context(), store.Filter{Sort: "id"})
	if err != nil || len(rows) != res.Taken {
		t.Fatal(len(rows), err)
	}
	type clock struct{ Seconds, Microseconds float64 }
	var document struct {
		Jobs []struct {
			Time  struct{ Start float64 }
			Steps []struct{ Time struct{ User, System clock } }
			Tres  struct {
				Allocated []struct {
					Type  string
					Count float64
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	var want, got [2]float64
	for _, j := range document.Jobs {
		for _, s := range j.Steps {
			want[0] += s.Time.User.Seconds + s.Time.System.Seconds + (s.Time.User.Microseconds+s.Time.System.Microseconds)/1e6
		}
		for _, x := range j.Tres.Allocated {
			if x.Type == "cpu" && j.Time.Start > 0 {
				want[1] += x.Count
			}
		}
	}
	for _, w := range rows {
		got[0], got[1] = got[0]+figureOf(w.CPUSeconds), got[1]+figureOf(w.AllocatedCores)
		if w.Site != "tinyhpc" {
			t.Errorf("%s is of %q", w.ID, w.Site)
		}
	}
	if math.Abs(got[0]-want[0]) > 1e-3 || want[0] == 0 || got[1] != want[1] {
		t.Errorf("CPU seconds and cores %v, want %v", got, want)
	}
}
