package term

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func ptr(v float64) *float64 { return &v }

func TestUnits(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name   string
		format func(*float64) string
		cases  map[float64]string
	}{
		{"bytes", Bytes, map[float64]string{0: "0 B", 512: "512 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 1.5 * (1 << 30): "1.5 GiB", 1023.7 * (1 << 20): "1 GiB", 1023.4 * (1 << 20): "1023 MiB", -2048: "-2 KiB", 1 << 62: "4 EiB"}},
		{"cores", Cores, map[float64]string{0: "0", 0.0004: "< 0.001", 0.0051: "0.005", 0.05: "0.05", 0.949: "0.95", 0.96: "1", 1: "1", 3.2: "3.2", 99.96: "100", 128: "128"}},
		{"seconds", Seconds, map[float64]string{0: "0 s", 2e-6: "2 µs", 0.0123: "12 ms", 0.9996: "1 s", 1.25: "1.2 s", 9.96: "10 s", 59.4: "59 s", 59.6: "1m 0s", 125: "2m 5s", 3599.6: "1h 0m", 7384: "2h 3m", 86399: "1d 0h", 273600: "3d 4h", 8640000: "100d", -90: "-1m 30s"}},
		{"percent", Percent, map[float64]string{0: "0 %", 0.0001: "< 0.1 %", 0.004: "0.4 %", 0.0996: "10 %", 0.37: "37 %", 1.2: "120 %"}},
		{"number", Number, map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"}},
		{"watts", Watts, map[float64]string{0.52: "0.52 W", 120: "120 W", 1530: "1.5 kW"}},
		{"energy", Energy, map[float64]string{512: "0.14 Wh", 1.9e6: "528 Wh", 5.4e6: "1.5 kWh"}},
	} {
		for in, want := range c.cases {
			if got := c.format(&in); got != want {
				t.Errorf("%s of %g is %q, want %q", c.name, in, got, want)
			}
		}
		if c.format(nil) != Unknown || c.format(&nan) != Unknown {
			t.Errorf("%s of what is unknown is %q and %q, want %q", c.name, c.format(nil), c.format(&nan), Unknown)
		}
	}
}

func TestTimes(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at         time.Time
		ago, clock string
	}{
		{time.Time{}, "-", "-"},
		{now, "now", "12:00:00"},
		{now.Add(-90 * time.Minute), "1h 30m ago", "10:30:00"},
		{now.Add(-20 * time.Hour), "20h 0m ago", "Nov 20 16:00"},
		{now.AddDate(-1, 0, 0), "365d ago", "2025-11-21"},
		{now.Add(5 * time.Second), "in 5 s", "12:00:05"},
	} {
		if ago, clock := Ago(c.at, now), Clock(c.at, now); ago != c.ago || clock != c.clock {
			t.Errorf("%v: %q %q, want %q %q", c.at, ago, clock, c.ago, c.clock)
		}
	}
}

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"nginx": "nginx", "Größe 数 👩‍💻": "Größe 数 👩‍💻",
		"a\x1b[31mb": "a?[31mb", "a\nb\rc\td": "a?b?c?d", "x\u202ey": "x?y", "bad\xffutf": "bad?utf", "\u009b31m": "?31m", "zero\u200bwidth": "zero?width",
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b]0;title\x07")
	f.Add("\u202e\xf0\x9f")
	f.Fuzz(func(t *testing.T, s string) {
		out := Safe(s)
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\x00\x07\x1b\n\r\u009b\u202e") {
			t.Errorf("Safe(%q) = %q", s, out)
		}
		if Safe(out) != out {
			t.Errorf("Safe is not stable on %q", s)
		}
		if w := Width(Cut(out, 7, false)); w > 7 {
			t.Errorf("Cut(%q, 7) is %d columns wide", out, w)
		}
		if w := Width(Pad(out, 9, true, true)); w != 9 {
			t.Errorf("Pad(%q, 9) is %d columns wide", out, w)
		}
	})
}

func TestScreen(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for i := 0; i+1 < len(kv); i += 2 {
				if kv[i] == k {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	var b bytes.Buffer
	if s := Open(&b, env()); s.Terminal || s.Color || s.Width != 0 || s.ASCII {
		t.Errorf("a pipe: %+v", s)
	}
	if s := Open(&b, env("COLUMNS", "70", "LINES", "20")); s.Width != 70 || s.Height != 20 {
		t.Errorf("COLUMNS and LINES: %+v", s)
	}
	if s := Open(&b, env("CLICOLOR_FORCE", "1")); !s.Color || s.Paint(Red, "x") != "\x1b[31mx\x1b[0m" {
		t.Errorf("forced colour: %+v", s)
	}
	if s := Open(&b, env("CLICOLOR_FORCE", "1", "NO_COLOR", "1")); s.Color || s.Paint(Red, "x") != "x" {
		t.Errorf("NO_COLOR does not win: %+v", s)
	}
	if !hasUTF8Locale(env("LANG", "C.utf8")) || hasUTF8Locale(env("LC_ALL", "C", "LANG", "C.UTF-8")) || !hasUTF8Locale(env()) {
		t.Error("the locale is misread")
	}
}

func TestBar(t *testing.T) {
	u, a := Screen{}, Screen{ASCII: true}
	for _, c := range []struct {
		s     Screen
		share *float64
		want  string
	}{
		{u, nil, "   -    "}, {u, ptr(0), "        "}, {u, ptr(0.001), "▏       "}, {u, ptr(0.5), "████    "},
		{u, ptr(0.55), "████▍   "}, {u, ptr(1), "████████"}, {u, ptr(1.5), "███████>"}, {u, ptr(-1), "        "},
		{a, ptr(0.5), "####...."}, {a, ptr(math.NaN()), "   -    "},
	} {
		if got := c.s.Bar(c.share, 8); got != c.want {
			t.Errorf("bar of %v is %q, want %q", c.share, got, c.want)
		}
	}
}

func TestTableFits(t *testing.T) {
	table := NewTable(Column{Title: "NAME", Shrink: 6}, Column{Title: "OWNER", Optional: 1}, Column{Title: "N", Right: true}, Column{Title: "EXTRA", Optional: 2})
	table.Add("a-long-name-数数数-tail", "alice", "1,234", "extra text")
	table.Add("b\x1b[1m", "", "-", "")
	for width, want := range map[int]string{
		0:  "NAME                     OWNER      N  EXTRA\na-long-name-数数数-tail  alice  1,234  extra text\nb?[1m                               -\n",
		24: "NAME        OWNER      N\na-long-na…  alice  1,234\nb?[1m                  -\n",
		14: "NAME         N\na-long…  1,234\nb?[1m        -\n",
		5:  "",
	} {
		var b strings.Builder
		if err := table.Print(Screen{Writer: &b, Width: width}); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if w := Width(line); width >= 14 && w > width {
				t.Errorf("width %d: a line of %d columns: %q", width, w, line)
			}
		}
		if want != "" && b.String() != want {
			t.Errorf("width %d gives\n%s\nwant\n%s", width, b.String(), want)
		}
	}
}

// TestWrappedColumns: what may be wrapped is never cut, and optional columns go before it is narrow.
func TestWrappedColumns(t *testing.T) {
	table := TableOf("ID|RULE:o1|WHAT:s16w")
	table.Add("1", "over-requested", "was allocated 64 cores and used 12")
	for width, want := range map[int]string{
		0:  "ID  RULE            WHAT\n1   over-requested  was allocated 64 cores and used 12\n",
		38: "ID  RULE            WHAT\n1   over-requested  was allocated 64\n                    cores and used 12\n",
		24: "ID  WHAT\n1   was allocated 64\n    cores and used 12\n",
	} {
		var b strings.Builder
		if err := table.Print(Screen{Writer: &b, Width: width}); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("width %d gives\n%s\nwant\n%s", width, b.String(), want)
		}
	}
}

// TestRareColumns: a column in which nothing is known is left out, and only if it may be.
func TestRareColumns(t *testing.T) {
	for _, c := range []struct {
		rows [][]string
		want string
	}{
		{[][]string{{"x", Unknown, Unknown}, {"y", Unknown, Unknown}}, "A B|x -|y -"},
		{[][]string{{"x", Unknown, Unknown}, {"y", Unknown, "0"}}, "A B C|x - -|y - 0"},
		{nil, "A B"},
	} {
		table := NewTable(Column{Title: "A"}, Column{Title: "B"}, Column{Title: "C", Rare: true})
		for _, r := range c.rows {
			table.Add(r...)
		}
		var b strings.Builder
		if err := table.Print(Screen{Writer: &b}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(b.String()) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%q, want %q", s, c.want)
		}
	}
}

func TestChart(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var points []Point
	for i := range 30 {
		p := Point{Time: start.Add(time.Duration(i) * time.Minute), Value: ptr(float64(i))}
		if i >= 10 && i < 20 {
			p.Value = nil
		}
		points = append(points, p)
	}
	text := Screen{}.Draw(Chart{Title: "Cores", Points: points, Format: Cores, Width: 34, Height: 4})
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 6 || !strings.Contains(lines[4], "███·········██") || !strings.HasPrefix(lines[1], "  29 ┤") {
		t.Errorf("chart:\n%s", text)
	}
	for _, ascii := range []bool{false, true} {
		for _, width := range []int{0, 20, 40, 200} {
			for n := range 40 {
				out := Screen{ASCII: ascii}.Draw(Chart{Points: points[:min(n, 30)], Format: Bytes, Width: width, Height: n % 7})
				for _, line := range strings.Split(out, "\n") {
					if w := Width(line); w > max(width, 22) {
						t.Errorf("width %d, %d points: a line of %d columns: %q", width, n, w, line)
					}
					if ascii && strings.IndexFunc(line, func(r rune) bool { return r > 126 }) >= 0 {
						t.Errorf("not ASCII: %q", line)
					}
				}
			}
		}
	}
	tiny := Screen{}.Draw(Chart{Points: []Point{{Time: start, Value: ptr(2e-5)}, {Time: start.Add(time.Minute), Value: ptr(1e-5)}}, Format: Cores, Width: 40, Height: 4})
	if strings.Count(tiny, "< 0.001") != 1 {
		t.Errorf("the same label twice:\n%s", tiny)
	}
	if got := (Screen{}).Draw(Chart{Title: "GPU", Points: []Point{{Time: start}}, Format: Cores}); got != "GPU: nothing was measured\n" {
		t.Errorf("a chart of nothing: %q", got)
	}
	if got := (Screen{}).Draw(Chart{Points: []Point{{Time: start, Value: ptr(0)}}, Format: Cores, Width: 30, Height: 2}); strings.Contains(got, "█") {
		t.Errorf("zero is drawn as something:\n%s", got)
	}
}

func TestSpark(t *testing.T) {
	if got := (Screen{}).Spark([]*float64{ptr(0), ptr(4), nil, ptr(8)}, 4); got != " ▄·█" {
		t.Errorf("spark %q", got)
	}
}

func BenchmarkTable(b *testing.B) {
	t := NewTable(Column{Title: "NAME", Shrink: 10}, Column{Title: "N", Right: true})
	for i := range 1000 {
		t.Add(fmt.Sprintf("workload-%d", i), fmt.Sprint(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := t.Print(Screen{Writer: new(bytes.Buffer), Width: 80}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMarkRows: a row of bounds has one mark, before its first cell; rows with few bounds and unknown cells are left as they are.
func TestMarkRows(t *testing.T) {
	table := TableOf("NAME|A|B|C|D")
	table.Add("old", ">=1 s", ">=2", "-", ">=3 B")
	table.Add("new", "1 s", ">=2", "5", "3 B")
	if n := table.MarkRows(">="); n != 1 {
		t.Error(n, "rows")
	}
	var b strings.Builder
	if err := table.Print(Screen{Writer: &b}); err != nil {
		t.Fatal(err)
	}
	if want := "NAME    A    B    C  D\n>= old  1 s  2    -  3 B\nnew     1 s  >=2  5  3 B\n"; b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
