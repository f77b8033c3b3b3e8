package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var text = flag.Bool("text", false, "compare what commands print for people, to the byte")

// clock is what moves with it: how long ago something was, and when an export was written. (Of
// another year dates are shown with their year: then the texts are to be recorded anew.)
var clock = regexp.MustCompile(`[0-9][0-9dhms ]* ago|longest for [0-9dhms ]+|waits since [0-9:]+ \([^)]*\)|"type":"job","attributes":\{"time":"[^"]*"`)

// TestText is for a change that must not change what people read: a redesign of what stands
// behind it. Words are put better all the time, so it runs only with -text. Before such a
// change, keep what the program prints (-record, with the programs of then by -programs).
func TestText(t *testing.T) {
	if !*text && !*record {
		t.Skip("words change on purpose: -text compares what commands print with testdata/text")
	}
	dir, m := unpack(t)
	s := serve(t, dir, filepath.Join(dir, "site"))
	defer s.stop()
	for _, q := range texts(t, m) {
		is, err := s.try(q.args...)
		if err != nil {
			is += fmt.Sprintln("exit:", err) // that is an answer, too
		}
		is = clock.ReplaceAllString(is, "CLOCK")
		file := filepath.Join("testdata/text", q.name+".txt")
		if *record {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("$ reckon "+strings.Join(q.args, " ")+"\n"+is), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, before, _ := strings.Cut(string(was), "\n")
		if n, first := differentLines(before, is); n > 0 {
			t.Errorf("%s: reckon %s: %d lines differ, first\n%s", q.name, strings.Join(q.args, " "), n, first)
		}
	}
}

// differentLines counts the lines at which two texts differ, and shows the first.
func differentLines(was, is string) (n int, first string) {
	if was == is {
		return 0, ""
	}
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x == y {
			continue
		}
		if n++; n == 1 {
			first = fmt.Sprintf("  was %q\n  is  %q", x, y)
		}
	}
	return max(n, 1), first
}

// texts are what people read, of times that do not move with the clock.
func texts(t *testing.T, m manifest) (list []question) {
	span := []string{"--since", m.From, "--until", m.To}
	add := func(name string, args ...string) { list = append(list, question{name, args}) }
	over := func(name string, args ...string) { add(name, append(args, span...)...) }
	over("jobs", "jobs")
	over("jobs-memory", "jobs", "--sort", "memory", "--kind", "slurm")
	over("jobs-csv", "jobs", "--format", "csv", "--limit", "30")
	add("jobs-imported", "jobs", "--since", "2020-01-01", "--until", m.From, "--sort", "start")
	over("usage", "usage")
	over("usage-account-day", "usage", "--by", "account", "--per", "day")
	over("usage-node", "usage", "--by", "node")
	over("usage-command", "usage", "--by", "command")
	over("usage-csv", "usage", "--by", "owner", "--format", "csv")
	over("usage-heatmap", "usage", "--heatmap", "hour-of-week")
	add("usage-imported", "usage", "--by", "site,owner", "--per", "month", "--since", "2020-01-01", "--until", m.From)
	add("findings-csv", "findings", "--all", "--format", "csv")
	add("report-csv", "report", "--period", "week", "--until", m.To, "--format", "csv")
	add("query", "query", "--at", m.To, "sum by (owner) (reckon_workload_cpu_seconds_total)")
	add("chart", "query", "--at", m.To, "--range", "24h", "sum(rate(reckon_workload_cpu_seconds_total[1h]))")
	over("export-jobs", "export", "sonar", "--type", "job")
	over("export-sample", "export", "sonar", "--step", "12h")
	add("findings-policy", "findings", "policy", "--of-server")
	for _, q := range findingQuestions(answered(t, "findings-all")) {
		add(q.name, q.args[:3]...)
	}
	for _, q := range jobQuestions(t, answered(t, "jobs")) {
		args := strings.Split(strings.ReplaceAll(strings.Join(q.args, "\n"), "\n--format\njson", ""), "\n")
		add(q.name, args...)
		if strings.HasPrefix(args[1], "slurm/") {
			add(q.name+"-seff", append(args, "--seff")...)
			add(q.name+"-mail", append(args, "--email-text")...)
			add(q.name+"-scale", append([]string{"scale"}, withoutStep(args[1:])...)...)
		}
	}
	return list
}

// withoutStep leaves --step and its value out.
func withoutStep(args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == "--step" {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}
