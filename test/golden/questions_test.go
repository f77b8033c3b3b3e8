package golden

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// question is a command with its answer in testdata/answers under its name.
type question struct {
	name string
	args []string
}

// mainSeries are the counters and gauges that are compared by their sums and numbers of series.
var mainSeries = []string{
	"reckon_workload_cpu_seconds_total", "reckon_workload_memory_byte_seconds_total", "reckon_workload_memory_peak_bytes",
	"reckon_workload_io_bytes_total", "reckon_workload_gpu_seconds_total", "reckon_workload_energy_joules_total",
	"reckon_workload_info", "reckon_workload_request_cores", "reckon_workload_start_time_seconds", "reckon_command_cpu_seconds_total",
	"node_cpu_seconds_total", "node_memory_MemAvailable_bytes", "reckon_node_energy_joules_total", "reckon_slurm_partition_jobs",
}

// questions about the site. All times are fixed: the data do not move with the clock.
func questions(m manifest) []question {
	q := func(name, args string) question {
		r := strings.NewReplacer("FROM", m.From, "TO", m.To)
		list := strings.Fields(args)
		for i := range list {
			list[i] = r.Replace(list[i])
		}
		return question{name, list}
	}
	list := []question{
		q("jobs", "jobs --since 2000-01-01 --until TO --sort start --format json"),
		q("jobs-csv", "jobs --since FROM --until TO --sort cpu --kind slurm --limit 20 --format csv"),
		q("jobs-filtered", "jobs --since FROM --until TO --state failed,out_of_memory,timeout --min-cpu 10 --sort memory --format json"),
		q("usage-owner", "usage --by owner --since FROM --until TO --format json"),
		q("usage-account-hours", "usage --by account --per hour --since FROM --until TO --format json"),
		q("usage-partition", "usage --by partition --per day --since FROM --until TO --format json"),
		q("usage-node", "usage --by node --since FROM --until TO --format json"),
		q("usage-command", "usage --by command,owner --since FROM --until TO --format json"),
		q("usage-kind-csv", "usage --by kind --since FROM --until TO --format csv"),
		q("usage-heatmap", "usage --heatmap hour-of-week --since FROM --until TO --format json"),
		q("usage-years", "usage --by site,owner --per month --since 2020-01-01 --until TO --format json"),
		q("findings", "findings --format json"),
		q("findings-all", "findings --all --limit 10000 --format json"),
		q("report", "report --period week --until TO --format json"),
	}
	promql := func(name, expr string, more ...string) {
		list = append(list, question{"promql-" + name, append([]string{"query", "--format", "json", expr}, more...)})
	}
	day := []string{"--at", m.To, "--range", "30h", "--step", "1h"} // read from the hours where they are kept
	for _, name := range mainSeries {
		promql("count-"+name, "count by (site, kind) ("+name+")", "--at", m.To)
		promql("sum-"+name, "sum by (site, owner, node) ("+name+")", "--at", m.To)
		promql("samples-"+name, "sum by (site, kind) (count_over_time("+name+"[31h]))", "--at", m.To)
		if strings.HasSuffix(name, "_total") {
			promql("hours-"+name, "sum by (site, owner, node) (increase("+name+"[1h]))", day...)
		}
	}
	promql("names", `count by (__name__, site) ({__name__=~"reckon_.+|node_.+"})`, "--at", m.To)
	promql("names-before", `count by (__name__, site) ({__name__=~"reckon_.+|node_.+"} offset 15h)`, "--at", m.To)
	promql("imported", `sum by (__name__, site) (last_over_time({__name__=~"reckon_.+",site!="golden"}[15000d]))`, "--at", m.To)
	promql("histogram", `histogram_quantile(0.95, sum by (owner) (increase(reckon_workload_cores[12h])))`, "--at", m.To)
	return list
}

// jobsQuestion lists every workload.
func jobsQuestion(m manifest) question { return questions(m)[0] }

// jobQuestions are about one run of each kind, state and site that the answer to jobs has.
func jobQuestions(t *testing.T, jobs any) (list []question) {
	t.Helper()
	seen := map[string]bool{}
	for _, row := range jobs.([]any) {
		row := row.(map[string]any)
		text := func(k string) string { s, _ := row[k].(string); return s }
		sort := strings.Join([]string{text("kind"), text("state"), text("site"), fmt.Sprint(row["gpu_seconds"] != nil, len(row["nodes"].([]any)) > 1)}, " ")
		if seen[sort] || text("kind") == "other" {
			continue
		}
		seen[sort] = true
		args := []string{"job", text("id"), "--step", "1h", "--format", "json"}
		if text("start") != "" {
			args = append(args, "--start", text("start"))
		}
		if text("site") != "" {
			args = append(args, "--site", text("site"))
		}
		list = append(list, question{fmt.Sprintf("job-%02d", len(list)), args})
	}
	return list
}

// findingQuestions are how the findings with steps came about.
func findingQuestions(findings any) (list []question) {
	for _, row := range findings.([]any) {
		if row := row.(map[string]any); row["rule"] == "over-share" && len(list) < 3 {
			list = append(list, question{fmt.Sprintf("finding-%02d", len(list)), []string{"findings", "--explain", row["id"].(string), "--format", "json"}})
		}
	}
	return list
}

// answered reads what the earlier program answered.
func answered(t *testing.T, name string) any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/answers", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// check compares an answer with the earlier program's, or keeps it.
func check(t *testing.T, name, text string) any {
	t.Helper()
	is, err := parse(text)
	if err != nil {
		t.Errorf("%s: %v: %.300s", name, err, text)
		return nil
	}
	if *record {
		if err := os.MkdirAll("testdata/answers", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("testdata/answers", name+".json"), lines(is), 0o644); err != nil {
			t.Fatal(err)
		}
		return is
	}
	was := answered(t, name)
	judge(t, name, was, is)
	return was
}

// checkStill holds an answer against one that is kept under another name.
func checkStill(t *testing.T, where, name, text string) {
	t.Helper()
	is, err := parse(text)
	if err != nil {
		t.Errorf("%s: %v: %.300s", where, err, text)
		return
	}
	judge(t, where, answered(t, name), is)
}

// judge names the differences that nobody intended.
func judge(t *testing.T, where string, was, is any) {
	t.Helper()
	n := 0
	withoutPresent(was)
	withoutPresent(is)
	for _, d := range compare(where, "", was, is) {
		if isIntended(d) {
			continue
		}
		if n++; n <= 10 {
			t.Error(d)
		}
	}
	if n > 10 {
		t.Errorf("%s: and %d differences more", where, n-10)
	}
}

// checkAll asks everything.
func (s *site) checkAll(m manifest) {
	s.t.Helper()
	began := time.Now()
	n := 0
	ask := func(q question) any {
		n++
		out, err := s.try(q.args...)
		if err != nil {
			s.t.Errorf("%s: reckon %s: %v\n%s", q.name, strings.Join(q.args, " "), err, out)
			return nil
		}
		return check(s.t, q.name, out)
	}
	kept := map[string]any{}
	for _, q := range questions(m) {
		kept[q.name] = ask(q)
	}
	if kept["jobs"] != nil {
		for _, q := range jobQuestions(s.t, kept["jobs"]) {
			ask(q)
		}
	}
	if kept["findings-all"] != nil {
		for _, q := range findingQuestions(kept["findings-all"]) {
			ask(q)
		}
	}
	s.t.Logf("%d questions in %.1f s", n, time.Since(began).Seconds())
}

// decode reads JSON that a command printed.
func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	return v
}
