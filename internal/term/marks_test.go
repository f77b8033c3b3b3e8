package term

import (
	"strings"
	"testing"
	"time"
)

func TestMarks(t *testing.T) {
	begin := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	at := func(minute float64) time.Time { return begin.Add(time.Duration(minute * float64(time.Minute))) }
	one := 1.0
	var points []Point // of ten minutes, each for the minute before it
	for i := range 10 {
		points = append(points, Point{Time: at(float64(i + 1)), Value: &one})
	}
	for name, tt := range map[string]struct {
		points []Point
		marks  []Mark
		want   string
	}{
		"the ends":        {points, []Mark{{From: at(0), To: at(0), Sign: 'b'}, {From: at(10), To: at(10), Sign: 'e'}}, "b                  e"},
		"just outside":    {points, []Mark{{From: at(10.5), To: at(10.5), Sign: 'e'}}, "                   e"},
		"a stretch":       {points, []Mark{{From: at(2.1), To: at(4), Sign: '~'}}, "    ~~~~"},
		"cut at the edge": {points, []Mark{{From: at(-50), To: at(1), Sign: '~'}, {From: at(9.6), To: at(99), Sign: '~'}}, "~~                 ~"},
		"over another":    {points, []Mark{{From: at(1.1), To: at(3), Sign: '~'}, {From: at(2), To: at(2), Sign: 'x'}}, "  ~x~~"},
		"before":          {points, []Mark{{From: at(-5), To: at(-3), Sign: 'x'}}, ""},
		"after":           {points, []Mark{{From: at(15), To: at(15), Sign: 'x'}}, ""},
		"turned round":    {points, []Mark{{From: at(5), To: at(3), Sign: 'x'}}, ""},
		"one point":       {points[:1], []Mark{{From: at(1), To: at(1), Sign: 'x'}}, "                   x"},
		"no points":       {nil, []Mark{{From: at(1), To: at(1), Sign: 'x'}}, ""},
		"none":            {points, nil, ""},
	} {
		c := Chart{Points: tt.points, Format: Cores, Width: 23, Height: 1}
		margin, plot := c.layout()
		if plot != 20 {
			t.Fatalf("%d columns after %d", plot, margin)
		}
		want := tt.want
		if want != "" {
			want = strings.Repeat(" ", margin+2) + want + "\n"
		}
		if got := (Screen{}).Marks(c, tt.marks); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	c := Chart{Points: points, Format: Cores, Width: 23, Height: 1}
	if got := (Screen{ASCII: true}).Marks(c, []Mark{{From: at(0), To: at(0), Sign: '▲', ASCII: '^'}}); strings.TrimSpace(got) != "^" {
		t.Errorf("%q", got)
	}
	if got := (Screen{Color: true}).Marks(c, []Mark{{From: at(0), To: at(0), Sign: '▲', Style: Red}}); Strip(got) == got || strings.TrimSpace(Strip(got)) != "▲" {
		t.Errorf("%q", got)
	}
}
