package importer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/interop/slurmtext"
	"reckon/store"
)

// held returns the allocated core, memory (GiB) and GPU seconds in the catalogue, and how
// much of the first is estimated, in total and per hour of one span.
func (l *lab) held(span store.Span, by ...string) []store.Use {
	l.t.Helper()
	use, err := l.facts.Use(l.t.Context(), store.RollupQuery{From: time.Unix(0, 0), To: now, Span: span, By: by})
	if err != nil {
		l.t.Fatal(err)
	}
	return use
}

func figureOf(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// TestHoursAllocated: allocations count by their time, to the second and in the right hours: for runs that
// were suspended, resized or requeued, and for those with only a request.
func TestHoursAllocated(t *testing.T) {
	const head = "JobID|JobIDRaw|User|State|Submit|Start|End|ReqCPUS|AllocTRES|Suspended|NodeList|JobName\n"
	for name, c := range map[string]struct {
		lines               string
		cores, memory, gpus float64 // core seconds, GiB seconds, GPU seconds
		estimated           float64
		hours               string
	}{
		"over two hours": {
			"1|1|a|COMPLETED|2025-03-01T09:00:00|2025-03-01T09:30:00|2025-03-01T10:45:10|3|cpu=4,mem=2G,gres/gpu=1,node=1|00:00:00|n1|x\n",
			4 * 4510, 2 * 4510, 4510, 0, "09 7200, 10 10840"},
		"ten days": {"1|1|a|COMPLETED|2025-03-01T09:00:00|2025-03-01T09:30:00|2025-03-11T09:30:01|3|cpu=4,node=1|00:00:00|n1|x\n",
			4 * 864001, 0, 0, 0, ""},
		"suspended": {"1|1|a|COMPLETED|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T11:00:00|1|cpu=2,node=1|00:30:00|n1|x\n",
			2 * 5400, 0, 0, 0, "09 5400, 10 5400"},
		"resized": {"1|1|a|RESIZING|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:40:00|8|cpu=8,node=2|00:00:00|n[1-2]|x\n" +
			"1|1|a|COMPLETED|2025-03-01T09:40:00|2025-03-01T09:00:00|2025-03-01T10:10:00|8|cpu=4,node=1|00:00:00|n1|x\n", 8*2400 + 4*1800,
			0, 0, 0, "09 24000, 10 2400"},
		"requeued": {"1|1|a|REQUEUED|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:10:00|2|cpu=2,node=1|00:00:00|n1|x\n" +
			"1|1|a|COMPLETED|2025-03-01T09:10:00|2025-03-01T09:20:00|2025-03-01T09:30:00|2|cpu=2,node=1|00:00:00|n1|x\n", 2 * 1200, 0, 0, 0,
			"09 2400"},
		"cancelled while it waited": {"1|1|a|CANCELLED by 0|2025-03-01T09:00:00|None|2025-03-01T09:10:00|2||00:00:00||x\n", 0, 0, 0, 0, ""},
		"nothing said of it": {"1|1|a|COMPLETED|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:10:00|2||00:00:00|n1|x\n",
			1200, 0, 0, 1200, "09 1200"},
	} {
		l := newLab(t)
		for range 2 { // the second time as a repeated import
			l.take("a.sacct", head+c.lines)
		}
		var cores, memory, gpus, estimated float64
		for _, u := range l.held(store.SpanWhole) {
			cores, memory, gpus, estimated = cores+figureOf(u.HeldCoreSeconds), memory+figureOf(u.HeldMemoryByteSeconds),
				gpus+figureOf(u.HeldGPUSeconds), estimated+figureOf(u.HeldEstimatedCoreSeconds)
		}
		if cores != c.cores || memory != c.memory*(1<<30) || gpus != c.gpus || estimated != c.estimated {
			t.Errorf("%s: %g core seconds (%g estimated), %g byte seconds, %g GPU seconds, want %+v", name, cores, estimated, memory, gpus,
				c)
		}
		var hours []string
		for _, u := range l.held(store.SpanHour) {
			if v := figureOf(u.HeldCoreSeconds); v != 0 {
				hours = append(hours, fmt.Sprintf("%s %g", u.At.Format("15"), v))
			}
		}
		if got := strings.Join(hours, ", "); c.hours != "" && got != c.hours {
			t.Errorf("%s: hours %q, want %q", name, got, c.hours)
		}
	}
}

// TestHoursAllocatedOfASite compares the accounting of another site with a sum over the lines of its file.
func TestHoursAllocatedOfASite(t *testing.T) {
	raw, err := os.ReadFile("../../../shared/data/hpc/sonar/slurm/sacct_output.txt")
	if err != nil {
		t.Skipf("%v: the accounting of another site is not here", err)
	}
	want := 0.0
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "|")
		if len(f) != 32 || strings.Contains(f[0], ".") {
			continue
		}
		elapsed, err := strconv.ParseFloat(f[12], 64) // for running jobs, until the export
		if err != nil {
			continue
		}
		want += slurmtext.ReadTRES(f[29]).Cores * elapsed
	}
	l := newLab(t)
	l.take("a.sacct", string(raw))
	got := 0.0
	for _, u := range l.held(store.SpanWhole, "owner") {
		got += figureOf(u.HeldCoreSeconds)
	}
	if want == 0 || got != want {
		t.Errorf("%.6f core seconds were held, want %.6f", got, want)
	}
}

// TestResizedJSON: the records of a resized job of sacct --json are one run, too.
func TestResizedJSON(t *testing.T) {
	at := func(minute int) int64 { return time.Date(2025, 3, 1, 9, minute, 0, 0, time.UTC).Unix() }
	record := func(state string, submit, end, cores int) string {
		return fmt.Sprintf(`{"job_id":1,"user":"a","name":"x","nodes":"n1","allocation_nodes":1,"state":{"current":[%q]},
			"time":{"submission":%d,"start":%d,"end":%d},"tres":{"allocated":[{"type":"cpu","count":%d}],"requested":[]},"steps":[]}`,
			state, at(submit), at(0), at(end), cores)
	}
	l := newLab(t)
	l.take("a.sacct", `{"jobs":[`+record("RESIZING", 0, 40, 8)+","+record("RESIZING", 40, 45, 2)+","+record("COMPLETED", 45, 70, 4)+"]}")
	if rows := l.rows(); strings.Count(rows, "slurm/1 ") != 1 {
		t.Errorf("the runs are %s", rows)
	}
	held := 0.0
	for _, u := range l.held(store.SpanWhole) {
		held += figureOf(u.HeldCoreSeconds)
	}
	if held != 60*(8*40+2*5+4*25) {
		t.Errorf("%g core seconds", held)
	}
}

// TestTasksThatWait: tasks of an array that wait are one line of accounting and no run. They are runs in a later export, once started.
func TestTasksThatWait(t *testing.T) {
	const head = "JobID|JobIDRaw|User|State|Submit|Start|End|ReqCPUS|AllocTRES|TotalCPU|NodeList|JobName\n"
	const first = "7_1|8|a|COMPLETED|2025-03-01T09:00:00|2025-03-01T09:00:00|2025-03-01T09:10:00|2|cpu=2,node=1|00:05:00|n1|x\n"
	unix := time.Date(2025, 3, 1, 9, 0, 0, 0, time.UTC).Unix()
	for name, text := range map[string]string{
		"text": head + first + "7_[4-10%2]|7|a|PENDING|2025-03-01T09:00:00|Unknown|Unknown|2||00:00:00|None assigned|x\n",
		"JSON": fmt.Sprintf(`{"jobs":[
			{"job_id":8,"array":{"job_id":7,"task_id":1,"task":""},"user":"a","name":"x","nodes":"n1","allocation_nodes":1,"state":{"current":["COMPLETED"]},
			"time":{"submission":%[1]d,"start":%[1]d,"end":%[2]d},"tres":{"allocated":[{"type":"cpu","count":2}],"requested":[]},
			"steps":[{"step":{"id":"8.batch","name":"batch"},"time":{"start":%[1]d,"end":%[2]d,"total":{"seconds":300,"microseconds":0}},"state":"COMPLETED"}]},
			{"job_id":7,"array":{"job_id":7,"task_id":{"set":false,"infinite":false,"number":0},"task":"4-10%%2"},"user":"a","name":"x","nodes":"None assigned",
			"state":{"current":["PENDING"]},"time":{"submission":%[1]d,"start":0,"end":0},"tres":{"allocated":[],"requested":[{"type":"cpu","count":2}]},"steps":[]}]}`,
			unix, unix+600),
	} {
		l := newLab(t)
		if r := l.take("a.sacct", text); r.Taken != 1 || r.Waiting != 1 || r.BadCount != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		l.want("slurm/7_1 a n1 2025-03-01T09:00:00 600 300")
		for _, u := range l.held(store.SpanWhole) {
			if figureOf(u.HeldCoreSeconds) != 1200 {
				t.Errorf("%s: %+v", name, u)
			}
		}
		l.take("b.sacct", head+first+"7_4|11|a|COMPLETED|2025-03-01T09:00:00|2025-03-01T09:20:00|2025-03-01T09:30:00|2|cpu=2,node=1|00:06:00|n1|x\n")
		l.want("slurm/7_1 a n1 2025-03-01T09:00:00 600 300\nslurm/7_4 a n1 2025-03-01T09:20:00 600 360")
	}
}
