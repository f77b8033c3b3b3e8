package stress

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ExampleReadTrace() {
	p, _, err := ReadTrace(strings.NewReader("seconds,cores,memory_bytes\n0,0.5,1000000\n10,1.5,\n12.5,,\n"))
	if err != nil {
		fmt.Println(err)
	}
	for _, s := range p.Steps {
		fmt.Println(s.Duration, s.Level[CPU], s.Level[Memory])
	}
	// Output:
	// 10s 0.5 1e+06
	// 2.5s 1.5 1e+06
}

func TestReadTrace(t *testing.T) {
	sec := time.Second
	for _, c := range []struct {
		name, text string
		want       []Step
		ignored    []string
	}{
		{"a row", "seconds,cores\n100,1\n", []Step{{Level{CPU: 1}, sec}}, nil},
		{"equal rows", "seconds,cores\n5,1\n7,1\n", []Step{{Level{CPU: 1}, 2 * sec}, {Level{CPU: 1}, 2 * sec}}, nil},
		{"other columns and case", "# by hand\nSeconds,Cores,watts\n0,1,50\n1,,\n", []Step{{Level{CPU: 1}, sec}}, []string{"watts"}},
		{"a gap", "seconds,cores,gpus\n0,,0.5\n1,2,\n", []Step{{Level{GPU: 0.5}, sec}, {Level{CPU: 2, GPU: 0.5}, sec}}, nil},
		{"byte order mark", "\ufeffseconds,cores\r\n0,1\r\n", []Step{{Level{CPU: 1}, sec}}, nil},
		{"JSON", `{"format":"reckon-trace/1","points":[{"seconds":0,"cores":1,"note":3},{"seconds":2}]}`, []Step{{Level{CPU: 1}, 2 * sec}}, []string{"note"}},
		{"JSON list", ` [{"seconds":0,"memory_bytes":5},{"seconds":0.5,"memory_bytes":null}]`, []Step{{Level{Memory: 5}, sec / 2}}, nil},
	} {
		p, ignored, err := ReadTrace(strings.NewReader(c.text))
		if err != nil || !reflect.DeepEqual(p.Steps, c.want) || !reflect.DeepEqual(ignored, c.ignored) {
			t.Errorf("%s: %+v, ignored %q, %v; want %+v, %q", c.name, p.Steps, ignored, err, c.want, c.ignored)
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":      {"", "empty"},
		"spaces":     {" \n", "empty"},
		"no seconds": {"cores\n1\n", "seconds"},
		"no figures": {"seconds,watts\n1,2\n", "needs a column"},
		"no rows":    {"seconds,cores\n", "no rows"},
		"time back":  {"seconds,cores\n1,1\n0,1\n", "row 3: seconds is 0 after 1"},
		"same time":  {"seconds,cores\n1,1\n1,1\n", "must rise"},
		"not a time": {"seconds,cores\nnoon,1\n", `row 2: "noon"`},
		"NaN time":   {"seconds,cores\nNaN,1\n", "seconds is NaN"},
		"below 0":    {"seconds,cores\n0,-1\n", "row 2: cores is -1"},
		"a word":     {"seconds,cores\n0,many\n", `cores: "many" is no number`},
		"twice":      {"seconds,cores,cores\n0,1,1\n", "twice"},
		"ragged":     {"seconds,cores\n0,1,2\n", "wrong number of fields"},
		"all 0":      {"seconds,cores\n0,0\n", "every step"},
		"newer":      {`{"format":"reckon-trace/9"}`, "reckon-trace/9"},
		"half":       {`{"points":[{"seconds":0`, "unexpected EOF"},
		"no time":    {`[{"cores":1}]`, "has no"},
	} {
		if p, _, err := ReadTrace(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, error %v, want %q", name, p.Steps, err, c.want)
		}
	}
}

// A written trace is read back unchanged.
func TestTraceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Program{Steps: []Step{{Level{CPU: 1}, time.Second}}} // a program of zeros only is invalid
		for range rapid.IntRange(0, 10).Draw(t, "steps") {
			var l Level
			l[CPU] = rapid.Float64Range(0, 100).Draw(t, "cores")
			l[Memory] = float64(rapid.IntRange(0, 1<<40).Draw(t, "memory"))
			l[GPU] = rapid.Float64Range(0, 1).Draw(t, "gpus")
			p.Steps = append(p.Steps, Step{l, time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "length"))})
		}
		var b bytes.Buffer
		if err := WriteTrace(&b, p, "slurm/1", rapid.SampledFrom([]string{"csv", "json"}).Draw(t, "format")); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		got, ignored, err := ReadTrace(&b)
		if err != nil || len(ignored) > 0 {
			t.Fatalf("%v, ignored %q in %s", err, ignored, text)
		}
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("got %+v, want %+v from %s", got, p, text)
		}
	})
}

func FuzzReadTrace(f *testing.F) {
	f.Add("seconds,cores,memory_bytes\n0,0.5,1000000\n10,1.5,\n")
	f.Add(`{"format":"reckon-trace/1","points":[{"seconds":0,"cores":1},{"seconds":2}]}`)
	f.Add(`[{"seconds":0,"cores":1}]`)
	f.Fuzz(func(t *testing.T, text string) {
		p, _, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		if err := p.Check(); err != nil {
			t.Errorf("%q: a program that cannot be played: %v", text, err)
		}
	})
}
