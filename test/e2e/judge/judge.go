// Package judge checks the sentences about a job against independent sources: the batch system, control groups and the
// load's own count. It shares no code with reckon: it reads the answer as JSON, and computes each figure by itself.
package judge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Truth is the independent knowledge about a job. A negative figure is unknown.
type Truth struct {
	ID           string  // slurm/7
	Wall, Limit  float64 // seconds, by accounting
	CPU          float64 // seconds, by control groups
	Cores        float64
	Memory, Peak float64 // bytes: allocated, and the highest of its control group
	Exit         float64 // as a shell has it
	Left         float64 // processes alive when the script ends, by the script
	Must         []string
}

type sentence struct {
	Key, Template, Run string
	Values             []struct {
		Name, Text, Unit, Run string
		Value                 *float64
	}
}

type answer struct {
	Verdicts []struct {
		Text     string
		Sentence *sentence
	}
	Advice *struct {
		Why       []string
		Sentences []sentence
	}
}

// fixedNumbers are the numbers that sentences have without a value: the share of the time that a percentile is for.
var fixedNumbers = []string{"95"}

var (
	place  = regexp.MustCompile(`\{[^}]*\}`)
	digits = regexp.MustCompile(`\d+`)
	amount = regexp.MustCompile(`(\d+(?:\.\d+)?) ?(TiB|GiB|MiB|KiB|B|%|ms|s|min|h|d)?`)
)

// Sentences returns the faults in the sentences of an answer about a job, and the number of figures computed anew.
func Sentences(raw []byte, t Truth) (wrong []string, computed int) {
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return []string{err.Error()}, 0
	}
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	keys := []string{}
	check := func(text string, s *sentence) {
		if s == nil {
			say("%q has no figures", text)
			return
		}
		keys = append(keys, s.Key)
		if is := sentenceText(s); is != text {
			say("%q is not made of its template and values: %q", text, is)
		}
		for _, n := range digits.FindAllString(place.ReplaceAllString(s.Template, ""), -1) {
			if !slices.Contains(fixedNumbers, n) {
				say("%q: %s is in no value", text, n)
			}
		}
		if s.Run != t.ID {
			say("%q is about %s", text, s.Run)
		}
		for _, v := range s.Values {
			if v.Value == nil {
				continue
			}
			if !showsValue(v.Text, *v.Value) {
				say("%q shows %g %s as %q", text, *v.Value, v.Unit, v.Text)
			}
			if low, high, ok := t.expectedRange(s.Key, v.Name); ok && v.Run == "" {
				if computed++; *v.Value < low || *v.Value > high {
					say("%q: %s is %g %s, others say %g to %g", text, v.Name, *v.Value, v.Unit, low, high)
				}
			}
		}
	}
	for _, v := range a.Verdicts {
		check(v.Text, v.Sentence)
	}
	if a.Advice != nil {
		for i, text := range a.Advice.Why {
			if i >= len(a.Advice.Sentences) {
				say("%q has no figures", text)
				continue
			}
			check(text, &a.Advice.Sentences[i])
		}
	}
	for _, key := range t.Must {
		if !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, key) }) {
			say("nothing of %s is said", key)
		}
	}
	return wrong, computed
}

// sentenceText returns the text of a sentence.
func sentenceText(s *sentence) string {
	next := 0
	return place.ReplaceAllStringFunc(s.Template, func(string) string {
		if next++; next > len(s.Values) {
			return "?"
		}
		return s.Values[next-1].Text
	})
}

// showsValue reports whether a text contains a value. The tolerance is half of the last digit, or the unit of a rounded time.
func showsValue(text string, value float64) bool {
	m := amount.FindStringSubmatch(text)
	if m == nil || strings.HasPrefix(text, "less than") || strings.HasPrefix(text, "<") {
		return !strings.ContainsAny(text, "123456789") || value < 1
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	unit := map[string]float64{"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "%": 0.01, "ms": 1e-3, "min": 60, "h": 3600,
		"d": 86400}[m[2]]
	unit = cmp.Or(unit, 1)
	step := 1.0
	if _, decimals, ok := strings.Cut(m[1], "."); ok {
		step = math.Pow(10, -float64(len(decimals)))
	} else if n >= 100 && m[2] != "" && m[2] != "%" {
		step = 1
	}
	rest := text[strings.Index(text, m[0])+len(m[0]):] // "1 h 15 min"
	if more := amount.FindStringSubmatch(rest); more != nil && slices.Contains([]string{"h", "d", "min"}, m[2]) {
		k, _ := strconv.ParseFloat(more[1], 64)
		minor := map[string]float64{"min": 60, "h": 3600, "s": 1}[more[2]]
		return math.Abs(value-n*unit-k*minor) <= minor
	}
	return math.Abs(value-n*unit) <= 0.51*step*unit+1e-9
}

// expectedRange returns the range of the true value for a sentence; ok is false if it is unknown.
func (t *Truth) expectedRange(key, name string) (low, high float64, ok bool) {
	about := func(v, within float64) (float64, float64, bool) { return v - within, v + within, v >= 0 }
	kind, _, _ := strings.Cut(key, ".")
	switch {
	case kind == "timeout" && name == "limit":
		return about(t.Limit, 0)
	case slices.Contains([]string{"cancelled", "short", "idle", "preempted", "node"}, kind) && name == "wall":
		return about(t.Wall, 2)
	case kind == "idle" && name == "cpu":
		return about(t.CPU, 0.02+0.01*t.CPU)
	case kind == "cores" && name == "mean":
		return t.CPU / (t.Wall + 2), t.CPU/math.Max(t.Wall-2, 0.1) + 0.01, t.CPU >= 0 && t.Wall > 5
	case name == "of" || kind == "idle" && name == "what":
		return about(t.Cores, 0)
	case kind == "memory" && name == "given":
		return about(t.Memory, 0)
	case kind == "memory" && (name == "needed" || name == "needed2" || name == "peak"):
		return 0, t.Peak * 1.01, t.Peak > 0
	case kind == "failed" && name == "code", kind == "exit" && name == "code":
		return about(t.Exit, 0)
	case kind == "left" && name == "processes":
		return about(t.Left, 0)
	case (kind == "failed" || kind == "exit") && name == "signal":
		return about(t.Exit-128, 0)
	}
	return 0, 0, false
}
