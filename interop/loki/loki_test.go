package loki

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/figure/wire"
)

// lokiServer responds like Loki: at most limit lines from start on, without end, of two streams.
type lokiServer struct {
	lines   []int64 // times, in order
	queries []string
	status  int
}

func (l *lokiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	l.queries = append(l.queries, q.Get("query"))
	if l.status != 0 {
		http.Error(w, "parse error: unexpected IDENTIFIER", l.status)
		return
	}
	from, _ := strconv.ParseInt(q.Get("start"), 10, 64)
	to, _ := strconv.ParseInt(q.Get("end"), 10, 64)
	limit, _ := strconv.Atoi(q.Get("limit"))
	if r.URL.Path != "/loki/api/v1/query_range" || q.Get("direction") != "forward" && q.Get("direction") != "backward" {
		http.NotFound(w, r)
		return
	}
	var values [2][]string
	for n := range l.lines {
		i := n
		if q.Get("direction") == "backward" {
			i = len(l.lines) - 1 - n
		}
		if at := l.lines[i]; at >= from && at < to && limit > 0 {
			values[i%2] = append(values[i%2], fmt.Sprintf(`["%d","line %d"]`, at, i))
			limit--
		}
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"streams","result":[{"stream":{"pod":"cart-a","container":"app"},"values":[%s]},{"stream":{"pod":"cart-b","container":"app"},"values":[%s]}]}}`,
		strings.Join(values[0], ","), strings.Join(values[1], ","))
}

// TestEach: each line comes once and in order, even if many have one time and pages end among them.
func TestEach(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	at := func(n int, of func(int) int64) (out []int64) {
		for i := range n {
			out = append(out, begin.UnixNano()+of(i))
		}
		return out
	}
	for what, tt := range map[string]struct {
		lines []int64
		want  int
	}{
		"none":                  {nil, 0},
		"one page":              {at(40, func(i int) int64 { return int64(i) }), 40},
		"a page to the line":    {at(Page, func(i int) int64 { return int64(i) }), Page},
		"pages":                 {at(2*Page+7, func(i int) int64 { return int64(i) }), 2*Page + 7},
		"many of one time":      {at(3*Page, func(i int) int64 { return int64(i / 9) }), 3 * Page},
		"after what was asked":  {at(10, func(i int) int64 { return int64(time.Hour) }), 0},
		"a page full of a time": {append(at(Page, func(int) int64 { return 5 }), at(3, func(int) int64 { return 6 })...), Page + 3},
	} {
		t.Run(what, func(t *testing.T) {
			s := httptest.NewServer(&lokiServer{lines: tt.lines})
			defer s.Close()
			var got []string
			last := time.Time{}
			c, err := New(s.URL, "{}")
			if err != nil {
				t.Fatal(err)
			}
			_, n, err := c.Each(t.Context(), &answer.LogPlace{From: begin, To: begin.Add(time.Minute)}, func(e *wire.LogLine) {
				if e.Time.Before(last) {
					t.Fatalf("%v after %v", e.Time, last)
				}
				last = e.Time
				got = append(got, e.Text)
			})
			slices.Sort(got)
			if err != nil || n != tt.want || len(slices.Compact(got)) != tt.want {
				t.Errorf("%d lines, %d different, %v; want %d", n, len(slices.Compact(got)), err, tt.want)
			}
		})
	}
}

// TestLogs: the first or the last lines, and whether there are more.
func TestLogs(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	fake := &lokiServer{}
	for i := range 10 {
		fake.lines = append(fake.lines, begin.Add(time.Duration(i)*time.Second).UnixNano())
	}
	s := httptest.NewServer(fake)
	defer s.Close()
	c, err := New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	p := &answer.LogPlace{Namespace: "shop", Pods: []string{"a.1", `b"`}, From: begin, To: begin.Add(time.Minute)}
	for what, x := range map[string]struct {
		first bool
		limit int
		want  string
		more  bool
	}{
		"the last three":   {false, 3, "line 7, line 8, line 9", true},
		"the first three":  {true, 3, "line 0, line 1, line 2", true},
		"as many as it is": {false, 10, "line 0, line 1, line 2, line 3, line 4, line 5, line 6, line 7, line 8, line 9", false},
		"all but one":      {true, 9, "line 0, line 1, line 2, line 3, line 4, line 5, line 6, line 7, line 8", true},
	} {
		logs, err := c.Logs(t.Context(), p, x.first, x.limit)
		var got []string
		for _, l := range logs.Lines {
			got = append(got, l.Text)
		}
		if err != nil || strings.Join(got, ", ") != x.want || logs.More != x.more || logs.Source != "loki" {
			t.Errorf("%s: %v, more %v, %v", what, got, logs.More, err)
		}
		if want := `{namespace="shop",pod=~"a\\.1|b\""}`; logs.Query != want || fake.queries[len(fake.queries)-1] != want {
			t.Errorf("%s, want %s", logs.Query, want)
		}
	}
	fake.status = http.StatusBadRequest
	if _, err := c.Logs(t.Context(), p, true, 1); err == nil || !strings.Contains(err.Error(), "400 Bad Request: parse error") {
		t.Errorf("refused: %v", err)
	}
	if _, err := c.Logs(t.Context(), &answer.LogPlace{Unit: "nginx.service"}, true, 1); !errors.Is(err, answer.ErrNotFound) {
		t.Errorf("a unit without labels: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for what, x := range map[string]struct{ address, selector string }{
		"no scheme":        {"loki:3100", ""},
		"another one":      {"ftp://loki", ""},
		"an unknown name":  {"http://loki", "{{.Pod}}"},
		"half a template":  {"http://loki", "{{.Pods"},
		"nothing to reach": {"http://", ""},
	} {
		if _, err := New(x.address, x.selector); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c, err := New("http://user:secret@127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Logs(t.Context(), &answer.LogPlace{}, true, 1); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "ask Loki: dial tcp") {
		t.Errorf("nobody there: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"data":{"resultType":"streams","result":[{"stream":{"pod":"a"},"values":[["1","x"],["2","y",{}]]}]}}`))
	f.Add([]byte(`{"data":{"resultType":"streams","result":[{"values":[[1,2],[]]}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		lines, err := parseResponse(body)
		for i := range lines {
			if err != nil || i > 0 && lines[i].Time.Before(lines[i-1].Time) {
				t.Errorf("%v, %v", lines, err)
			}
		}
	})
}
