package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// clock matches what moves with the clock of the machine: ages, the time of an answer, and versions of programs.
// (Dates of another year are shown with their year: record again then.)
var clock = regexp.MustCompile(`[0-9][0-9dhms ]* ago|longest for [0-9dhms ]+|waits since [A-Za-z0-9: ]+ \([^)]*\)` +
	`|"type":"job","attributes":\{"time":"[^"]*"|"(as_of|made|longest_seconds|version)": ?("[^"]*"|[0-9.e+]+)`)

// digits matches numbers with more digits than a sum has that is made in another order.
var digits = regexp.MustCompile(`[0-9]+\.[0-9]{4,}(e[+-]?[0-9]+)?`)

// rounded writes such numbers with 12 digits.
func rounded(text string) string {
	return digits.ReplaceAllStringFunc(text, func(s string) string {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return s
		}
		return strconv.FormatFloat(v, 'g', 12, 64)
	})
}

// TestOutputs compares the outputs of commands and of the API with the outputs of the program that left the data, to the byte.
// Lines may differ only as testdata/differences.txt allows, one allowance a line with its reason.
func TestOutputs(t *testing.T) {
	allowed := allowances(t)
	dir, m := unpack(t)
	s := serve(t, dir, filepath.Join(dir, "site"))
	defer s.stop()
	s.settle()
	for _, q := range texts(t, m) {
		is, err := s.try(q.args...)
		if err != nil {
			is += fmt.Sprintln("exit:", err) // an answer, too
		}
		compareOutput(t, allowed, q.name, "reckon "+strings.Join(q.args, " "), is)
	}
	for name, path := range addresses(t, m) {
		status, body := s.get(path, "admin.token")
		var pretty bytes.Buffer
		if json.Indent(&pretty, []byte(body), "", "  ") == nil {
			body = pretty.String()
		}
		compareOutput(t, allowed, name, "GET "+path, fmt.Sprintf("%d\n%s", status, body))
	}
	for _, a := range allowed {
		if !a.used && !*record && *programs == "" {
			t.Errorf("testdata/differences.txt allows %s %s, and nothing differs so: remove the line", a.output, a.line)
		}
	}
}

// allowance lets lines of one output differ that match a pattern.
type allowance struct {
	output, line *regexp.Regexp
	used         bool
}

// allowances reads testdata/differences.txt: an output, a line of it before or after (both regular expressions that match
// the whole), and the reason, separated by tabs.
func allowances(t *testing.T) (list []*allowance) {
	t.Helper()
	text, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || len(f[2]) < 20 {
			t.Fatalf("testdata/differences.txt:%d: want an output, a line and a reason of 20 characters, separated by tabs", n+1)
		}
		list = append(list, &allowance{output: regexp.MustCompile("^(?:" + f[0] + ")$"), line: regexp.MustCompile("^(?:" + spaces.ReplaceAllString(f[1], " +") + ")$")})
	}
	return list
}

// compareOutput compares an output with the recorded one, or records it.
func compareOutput(t *testing.T, allowed []*allowance, name, command, is string) {
	t.Helper()
	is = clock.ReplaceAllString(is, "CLOCK")
	file := filepath.Join("testdata/text", name+".txt")
	if *record {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("$ "+command+"\n"+is), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, before, _ := strings.Cut(string(was), "\n")
	before, is = anyDay(unwrapped(rounded(before))), anyDay(unwrapped(rounded(withoutWithin(is))))
	if before == is {
		return
	}
	a, b := withoutAllowed(allowed, name, before, is)
	if n, first := differentLines(a, b); n > 0 {
		t.Errorf("%s: %s: %d lines differ, first\n%s", name, command, n, first)
	}
}

// The programs show times of today as 03:47:38 and of this year as Nov 27 03:47. The outputs were recorded on recordedOn.
const recordedOn = "Nov 27"

var (
	today  = regexp.MustCompile(`(?m)(^|[ (])([0-2][0-9]:[0-5][0-9]):[0-5][0-9]\b`) // no duration, as of --time=05:00:00
	spaces = regexp.MustCompile(` {2,}`)
)

// anyDay writes the times of a text in the form of this year, and columns as wide as on any day. JSON keeps its times.
func anyDay(text string) string {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return text
	}
	return spaces.ReplaceAllString(today.ReplaceAllString(text, "${1}"+recordedOn+" $2"), "  ")
}

// withoutWithin leaves out the use within a time. Lists of jobs have it now beside the use of the whole run (pages.md, U17).
// TestListWithin of package answer holds it.
func withoutWithin(text string) string {
	var out []string
	end := ""
	for line := range strings.SplitSeq(text, "\n") {
		indent, _, begins := strings.Cut(line, `"within": {`)
		switch {
		case end == "" && begins:
			end = indent + "}"
		case end == "":
			out = append(out, line)
		case strings.TrimSuffix(line, ",") == end:
			if end = ""; !strings.HasSuffix(line, ",") {
				out[len(out)-1] = strings.TrimSuffix(out[len(out)-1], ",")
			}
		}
	}
	return strings.Join(out, "\n")
}

// ages matches where a line of times is wrapped, which depends on how long the ages in it are.
var ages = regexp.MustCompile(`(?m)^(Time  .*)\n {12}`)

// unwrapped joins such lines.
func unwrapped(text string) string {
	for ages.MatchString(text) {
		text = ages.ReplaceAllString(text, "$1   ")
	}
	return text
}

// withoutAllowed removes from two outputs that differ the lines that may differ.
func withoutAllowed(allowed []*allowance, name, was, is string) (string, string) {
	for _, a := range allowed {
		if !a.output.MatchString(name) {
			continue
		}
		without := func(text string) (rest, taken string) {
			var r, t strings.Builder
			for line := range strings.Lines(text) {
				if a.line.MatchString(strings.TrimSpace(line)) {
					t.WriteString(line)
				} else {
					r.WriteString(line)
				}
			}
			return r.String(), t.String()
		}
		restWas, tookWas := without(was)
		restIs, tookIs := without(is)
		if tookWas != tookIs {
			a.used, was, is = true, restWas, restIs
		}
	}
	return was, is
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

// texts are commands with outputs that do not move with the clock, as people and programs read them.
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
	for _, q := range questions(m) {
		if !strings.HasPrefix(q.name, "promql") && !strings.HasSuffix(q.name, "csv") {
			add(q.name+"-json", q.args...)
		}
	}
	add("alerts-rules", "alerts", "rules")
	for _, q := range findingQuestions(answered(t, "findings-all")) {
		add(q.name, q.args[:3]...)
	}
	for _, q := range jobQuestions(t, answered(t, "jobs")) {
		args := strings.Split(strings.ReplaceAll(strings.Join(q.args, "\n"), "\n--format\njson", ""), "\n")
		add(q.name, args...)
		add(q.name+"-json", q.args...)
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

// addresses are paths of the API with answers that do not move with the clock.
func addresses(t *testing.T, m manifest) map[string]string {
	t.Helper()
	span := "since=" + m.From + "&until=" + m.To
	out := map[string]string{
		"api-workloads": "/api/reckon/v1/workloads?sort=cpu&limit=50&" + span,
		"api-usage":     "/api/reckon/v1/usage?by=owner,partition&per=day&" + span,
		"api-findings":  "/api/reckon/v1/findings?all=true&limit=200",
		"api-policy":    "/api/reckon/v1/policy",
		"api-report":    "/api/reckon/v1/report?period=week&until=" + m.To,
		"api-unknown":   "/api/reckon/v1/nothing",
		"api-bad":       "/api/reckon/v1/workloads?sort=nothing",
	}
	n := 0
	for _, q := range jobQuestions(t, answered(t, "jobs")) {
		if id := q.args[1]; strings.HasPrefix(id, "slurm/") && n < 4 {
			out[fmt.Sprintf("api-job-%d", n)] = "/api/reckon/v1/workloads/" + id + "?step=1h"
			out[fmt.Sprintf("api-members-%d", n)] = "/api/reckon/v1/members/" + id
			out[fmt.Sprintf("api-scale-%d", n)] = "/api/reckon/v1/scale/" + id
			n++
		}
	}
	return out
}
