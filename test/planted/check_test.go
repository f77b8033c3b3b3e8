package planted

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
)

// listed are the sentences that must be shown, by the command that shows them.
//
//go:embed testdata/sentences.txt
var listed string

// quantity is a number of a sentence as it was planted: it lies between low and high. Of a text, it is that.
type quantity struct {
	low, high float64
	text      string
}

// near is a number with a relative tolerance.
func near(v, tolerance float64) quantity {
	return quantity{low: v - math.Abs(v)*tolerance, high: v + math.Abs(v)*tolerance}
}

func from(low, high float64) quantity { return quantity{low: low, high: high} }

// sentence is a line of the list.
type sentence struct {
	text     string
	optional bool // it depends on the hour of the day whether it is shown
	pattern  *regexp.Regexp
	names    []string
}

// choice is a list of words; one is shown: [yes|no].
var choice = regexp.MustCompile(`\\\[[^\]]*\\\]`)

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// amount matches a number with its unit, or a time.
const amount = `((?:<=? ?)?[0-9][0-9.,:]*(?:d [0-9]+h|h [0-9]+m|h[0-9]+m|h|m [0-9.]+s| (?:%|B/s|B|KiB|MiB|GiB|TiB|W|kW|Wh|kWh|h [0-9]+ min|h|min))?|[A-Z][a-z]{2} [0-9]{2} [0-9:]{5}|[0-9-]{10} [0-9:]{5})`

func parseSentence(line string) sentence {
	s := sentence{}
	s.text, s.optional = strings.CutPrefix(line, "? ")
	parts := placeholder.Split(s.text, -1)
	for _, n := range placeholder.FindAllString(s.text, -1) {
		s.names = append(s.names, strings.Trim(n, "{}"))
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString(amount)
		}
		quoted := regexp.QuoteMeta(p)
		b.WriteString(choice.ReplaceAllStringFunc(quoted, func(c string) string {
			return "(?:" + strings.ReplaceAll(c[2:len(c)-2], `\|`, "|") + ")"
		}))
	}
	s.pattern = regexp.MustCompile("^" + b.String() + "$")
	return s
}

// sections are the sentences of the list by command.
func sections() (order []string, by map[string][]sentence) {
	by = map[string][]sentence{}
	for line := range strings.Lines(listed) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "== "):
			order = append(order, line[3:])
		default:
			at := order[len(order)-1]
			by[at] = append(by[at], parseSentence(line))
		}
	}
	return order, by
}

var findingID = regexp.MustCompile(`\b[0-9a-f]{12}\b`)

var spaces = regexp.MustCompile(`\s+`)

// sentencesOf returns the lines of a text. What was wrapped is one line; columns are apart by one blank.
func sentencesOf(text string) (out []string) {
	for line := range strings.Lines(text) {
		flat := strings.TrimSpace(spaces.ReplaceAllString(line, " "))
		if n := len(out); n > 0 && strings.HasPrefix(out[n-1], "- ") && strings.HasPrefix(line, "   ") && flat != "" && !strings.HasPrefix(line, "    ") {
			out[n-1] += " " + flat
			continue
		}
		out = append(out, flat)
	}
	return out
}

var units = map[string]float64{"": 1, "%": 0.01, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "W": 1, "kW": 1e3,
	"Wh": 3600, "kWh": 3.6e6, "B/s": 1, "runs": 1, "run": 1, "days": 1, "h": 3600, "min": 60, "m": 60, "s": 1, "d": 86400}

var number = regexp.MustCompile(`([0-9][0-9.,]*) ?([A-Za-z%/]*)`)

// parseAmount returns a number in SI units, and by how much it may be off as it is rounded.
func parseAmount(text string) (v, rounding float64, err error) {
	for _, m := range number.FindAllStringSubmatch(text, -1) {
		digits := strings.ReplaceAll(m[1], ",", "")
		n, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%q: %w", text, err)
		}
		_, decimals, _ := strings.Cut(digits, ".")
		u, ok := units[m[2]]
		if !ok {
			return 0, 0, fmt.Errorf("%q has the unit %q", text, m[2])
		}
		v, rounding = v+n*u, 0.5*math.Pow(10, -float64(len(decimals)))*u
	}
	if strings.HasPrefix(text, "<") {
		return 0, v, nil
	}
	return v, rounding * 1.0001, nil
}

// holds reports the fault of a number that is shown.
func (q quantity) holds(shown string) error {
	if q.text != "" {
		if shown != q.text {
			return fmt.Errorf("%s is shown, %s was planted", shown, q.text)
		}
		return nil
	}
	v, rounding, err := parseAmount(shown)
	if err == nil && (v+rounding < q.low || v-rounding > q.high) {
		err = fmt.Errorf("%s is shown, %.6g to %.6g was planted", shown, q.low, q.high)
	}
	return err
}

// judge compares what a command shows with what was planted and returns everything that is wrong.
func judge(text string, list []sentence, of map[string]quantity) (wrong []string) {
	seen := make([]bool, len(list))
	for _, line := range sentencesOf(findingID.ReplaceAllString(text, "ID")) {
		best := ""
		if strings.ContainsFunc(line, unicode.IsDigit) {
			best = "is not in the list: " + line
		}
		for i := range list {
			m := list[i].pattern.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			bad := ""
			for k, name := range list[i].names {
				q, ok := of[name]
				if !ok {
					bad = "the list names {" + name + "}, of which nothing is planted"
				} else if err := q.holds(m[k+1]); err != nil {
					bad = fmt.Sprintf("{%s}: %v: %s", name, err, line)
				}
			}
			if best = bad; bad == "" {
				seen[i] = true
				break
			}
		}
		if best != "" {
			wrong = append(wrong, best)
		}
	}
	for i := range list {
		if !seen[i] && !list[i].optional {
			wrong = append(wrong, "is not shown, or with another number: "+list[i].text)
		}
	}
	return wrong
}

// TestJudge: a number that is planted wrong on purpose is found, as are a sentence that is missing and one that is not in the list.
func TestJudge(t *testing.T) {
	list := []sentence{parseSentence("- memory {memory}: its highest peak in {days} days was {peak}"), parseSentence("hours measured {n}, needed 24")}
	of := map[string]quantity{"memory": near(4.2*gib, 0.02), "days": near(14, 0), "peak": near(4.08*gib, 0.01), "n": near(1, 0)}
	const good = "Advice:\n-  memory 4.2 GiB: its highest peak in 14\n   days was 4.1 GiB\nhours measured 1, needed 24\n"
	if wrong := judge(good, list, of); wrong != nil {
		t.Error(wrong)
	}
	for name, q := range of {
		bad := maps.Clone(of)
		bad[name] = quantity{low: q.low * 2, high: q.high * 2}
		if len(judge(good, list, bad)) == 0 {
			t.Errorf("another %s was not found", name)
		}
	}
	for _, text := range []string{strings.Replace(good, "4.1", "4.3", 1), strings.Replace(good, "24", "48", 1), good + "7 more\n", "hours measured 1, needed 24\n"} {
		if len(judge(text, list, of)) == 0 {
			t.Errorf("nothing is wrong with %q", text)
		}
	}
	for shown, want := range map[string]float64{"64h30m": 232200, "3 h 45 min": 13500, "1,467": 1467, "23d 1h": 1990800, "85 %": 0.85, "1.5 GiB": 1.5 * gib} {
		if v, _, err := parseAmount(shown); err != nil || v != want {
			t.Errorf("%s: %v, %v", shown, v, err)
		}
	}
}

// since writes a time as lists do.
func (p *plan) since(at time.Time) quantity {
	if now := time.Now().UTC(); at.Format("2006-01-02") != now.Format("2006-01-02") {
		return quantity{text: at.Format("Jan 02 15:04")}
	}
	return quantity{text: at.Format("15:04:05")}
}
