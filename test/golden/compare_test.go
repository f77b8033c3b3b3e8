package golden

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// dust is by how much of its value a figure may differ: sums over rows in another order.
const dust = 1e-9

// missing stands for a value or row that one of two answers does not have.
type missing struct{}

func (missing) String() string { return "nothing" }

// difference is a place at which two answers differ.
type difference struct {
	Where   string // question and keys, as they stand in intended_test.go: jobs/cpu_seconds
	Row     string // the keys of the rows on the way
	Was, Is any
}

func (d difference) String() string {
	return fmt.Sprintf("%s %s: was %v, is %v", d.Where, d.Row, d.Was, d.Is)
}

// parse reads an answer, JSON or CSV with a heading.
func parse(text string) (any, error) {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		err := dec.Decode(&v)
		return v, err
	}
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(lines) == 0 {
		return nil, fmt.Errorf("neither JSON nor CSV: %w", err)
	}
	rows := []any{}
	for _, line := range lines[1:] {
		row := map[string]any{}
		for i, field := range line {
			row[lines[0][i]] = field
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// compare lists what of an old answer is not in a new one as it was, and rows that are new.
// A key that only the new one has is no difference.
func compare(where, row string, was, is any) []difference {
	switch a := was.(type) {
	case map[string]any:
		b, ok := is.(map[string]any)
		if !ok {
			break
		}
		var out []difference
		for _, k := range slices.Sorted(maps.Keys(a)) {
			v, ok := b[k]
			if !ok && a[k] != nil { // null and absent are the same: not measured
				v = missing{}
			}
			out = append(out, compare(where+"/"+k, row, a[k], v)...)
		}
		return out
	case []any:
		if b, ok := is.([]any); ok {
			return compareRows(where, row, a, b)
		}
	}
	if same(was, is) {
		return nil
	}
	return []difference{{where, row, was, is}}
}

func compareRows(where, row string, was, is []any) (out []difference) {
	old, names := keyed(was)
	now, more := keyed(is)
	for _, name := range names {
		at := strings.TrimSpace(row + " " + name)
		if v, ok := now[name]; ok {
			out = append(out, compare(where, at, old[name], v)...)
			continue
		}
		out = append(out, difference{where, at, brief(old[name]), missing{}})
	}
	for _, name := range more {
		if _, ok := old[name]; !ok {
			out = append(out, difference{where, strings.TrimSpace(row + " " + name), missing{}, brief(now[name])})
		}
	}
	if len(is) > 0 && severity(is[0]) < len(severities) { // listed by severity and cost now
		return append(out, disordered(where, row, is)...)
	}
	// Rows of both stand in one order.
	names = slices.DeleteFunc(names, func(name string) bool { return now[name] == nil })
	more = slices.DeleteFunc(more, func(name string) bool { return old[name] == nil })
	for i, name := range names {
		if more[i] != name {
			return append(out, difference{where + "/order", row, name, more[i]})
		}
	}
	return out
}

var severities = []string{"high", "medium", "low"}

// severity is the place of a finding in the list of them, beyond its end for a row of another kind.
func severity(finding any) int {
	row, _ := finding.(map[string]any)
	if i := slices.Index(severities, fmt.Sprint(row["severity"])); i >= 0 && row["rule"] != nil {
		return i
	}
	return len(severities)
}

// disordered finds findings that do not stand by severity, the gravest first. Findings of one severity and rule stand by the amount that
// was allocated and not used, the most first; none of them goes on.
func disordered(where, row string, list []any) []difference {
	wasted := map[string]float64{}
	for i, v := range list {
		grave, f := severity(v), v.(map[string]any)
		if i > 0 && grave < severity(list[i-1]) {
			return []difference{{where + "/order", row, brief(list[i-1]), brief(v)}}
		}
		evidence, _ := f["evidence"].([]any)
		for _, e := range evidence {
			e := e.(map[string]any)
			if e["wasted"] != true {
				continue
			}
			key := fmt.Sprint(grave, f["rule"], f["part"], e["unit"])
			v, err := strconv.ParseFloat(fmt.Sprint(e["value"]), 64)
			if before, some := wasted[key]; err != nil || some && v > before*(1+dust) {
				return []difference{{where + "/order", row, fmt.Sprint(key, " ", before), v}}
			}
			wasted[key] = v
		}
	}
	return nil
}

// brief is a value in a message.
func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text[:min(len(text), 300)])
}

// identities distinguish rows: the keys of the first list with a first key that a row
// has. The lists are of workloads and findings, samples, classes of a histogram, usage,
// profiles, evidence, commands, and parts.
var identities = [][]string{
	{"id", "start", "site"},
	{"time"},
	{"low"},
	{"metric", "node", "part", "command"},
	{"from", "site", "owner", "account", "partition", "node", "command", "kind"},
	{"text"},
	{"command"},
	{"node", "part"},
}

// keyed names the rows of a list. Rows that nothing distinguishes are numbered.
func keyed(list []any) (rows map[string]any, names []string) {
	rows = map[string]any{}
	for i, v := range list {
		name := strconv.Itoa(i)
		if object, ok := v.(map[string]any); ok {
			name = nameOf(object)
		}
		for n, plain := 2, name; ; n++ {
			if _, taken := rows[name]; !taken {
				break
			}
			name = fmt.Sprintf("%s (%d)", plain, n)
		}
		rows[name] = v
		names = append(names, name)
	}
	return rows, names
}

func nameOf(row map[string]any) string {
	for _, keys := range identities {
		if _, ok := row[keys[0]]; !ok {
			continue
		}
		var b strings.Builder
		for _, k := range keys {
			if v := row[k]; v != nil && v != "" {
				fmt.Fprintf(&b, " %s=%v", k, v)
			}
		}
		return strings.TrimSpace(b.String())
	}
	return "row"
}

// same holds for equal values: times may be written differently, figures may differ by dust.
func same(was, is any) bool {
	if was == is {
		return true
	}
	a, ok1 := scalar(was)
	b, ok2 := scalar(is)
	if !ok1 || !ok2 {
		return false
	}
	if x, err := strconv.ParseFloat(a, 64); err == nil {
		y, err := strconv.ParseFloat(b, 64)
		return err == nil && (x == y || math.Abs(x-y) <= dust*max(math.Abs(x), math.Abs(y)) || math.IsNaN(x) && math.IsNaN(y))
	}
	x, err1 := time.Parse(time.RFC3339Nano, a)
	y, err2 := time.Parse(time.RFC3339Nano, b)
	return err1 == nil && err2 == nil && x.Equal(y)
}

// scalar is the text of a number or string; PromQL writes its values as strings.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case string:
		return v, true
	}
	return "", false
}

// lines writes an answer with one row or key a line, so that what changed can be seen in a diff.
func lines(v any) []byte {
	var rows []string
	open, end := "[", "]"
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // it was JSON
		}
		return string(b)
	}
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			rows = append(rows, text(one))
		}
	case map[string]any:
		open, end = "{", "}"
		for _, k := range slices.Sorted(maps.Keys(v)) {
			rows = append(rows, text(k)+":"+text(v[k]))
		}
	}
	return []byte(open + "\n" + strings.Join(rows, ",\n") + "\n" + end + "\n")
}

// TestDisordered holds that findings are seen that do not stand by severity and cost.
func TestDisordered(t *testing.T) {
	finding := func(severity string, value float64) any {
		return map[string]any{"rule": "gpu-unused", "severity": severity, "part": "gpu",
			"evidence": []any{map[string]any{"unit": "gpu-seconds", "value": value, "wasted": true}}}
	}
	for _, c := range []struct {
		list []any
		want int
	}{
		{[]any{finding("high", 1), finding("medium", 3), finding("medium", 2), finding("low", 9)}, 0},
		{[]any{finding("medium", 3), finding("high", 1)}, 1}, {[]any{finding("low", 2), finding("low", 3)}, 1},
	} {
		if got := compareRows("q", "", nil, c.list); len(got) != len(c.list)+c.want {
			t.Errorf("%v: %v", c.list, got)
		}
	}
}

// TestCompare holds that a difference is seen, and what was added is none.
func TestCompare(t *testing.T) {
	const (
		first  = `{"id":"slurm/1","start":"2026-01-01T00:00:00Z","end":"2026-01-02T00:00:00Z","cpu":1.5,"gpu":null,"nodes":["a","b"],"parts":[{"node":"a","part":"0","cpu":1}]}`
		second = `{"id":"slurm/2","start":"2026-01-01T00:00:00Z","cpu":2}`
		old    = "[" + first + "," + second + "]"
	)
	for name, c := range map[string]struct{ from, to, want string }{
		"the same":           {"", "", ""},
		"a key more":         {`"cpu":1.5`, `"cpu":1.5,"more":7`, ""},
		"another order":      {`"cpu":1.5,"gpu":null`, `"gpu":null,"cpu":1.5`, ""},
		"no key for null":    {`"gpu":null,`, "", ""},
		"dust":               {`1.5`, `1.5000000000000002`, ""},
		"the time otherwise": {`2026-01-02T00:00:00Z`, `2026-01-02T01:00:00.000+01:00`, ""},
		"another time":       {`2026-01-02T00:00:00Z`, `2026-01-02T00:00:01Z`, "q/end"},
		"another figure":     {`1.5`, `1.500001`, "q/cpu"},
		"a figure lost":      {`"cpu":1.5,`, "", "q/cpu"},
		"null is no zero":    {`"gpu":null`, `"gpu":0`, "q/gpu"},
		"a figure is null":   {`"cpu":2`, `"cpu":null`, "q/cpu"},
		"another node":       {`"b"`, `"c"`, "q/nodes"},
		"a node lost":        {`,"b"`, "", "q/nodes"},
		"in a list":          {`"part":"0","cpu":1`, `"part":"0","cpu":2`, "q/parts/cpu"},
		"a row lost":         {`slurm/2`, `slurm/3`, "q"},
		"rows in turn":       {old, "[" + second + "," + first + "]", "q/order"},
	} {
		was, err := parse(old)
		if err != nil {
			t.Fatal(err)
		}
		is, err := parse(strings.Replace(old, c.from, c.to, 1))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := ""
		if d := compare("q", "", was, is); len(d) > 0 {
			got = d[0].Where
		}
		if got != c.want {
			t.Errorf("%s: the difference is at %q, want %q", name, got, c.want)
		}
	}
}
