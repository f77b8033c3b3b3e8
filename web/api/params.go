package api

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"reckon/web/client"
	"reckon/workload"
)

// param describes a parameter of a route. The parser rejects parameters that are not described, and the OpenAPI
// document lists the same ones.
type param struct {
	name   string
	doc    string
	schema schema
	many   bool // may be repeated, or contain a comma-separated list
	inPath bool
}

const (
	defaultLimit = 1000
	maxLimit     = 100_000
	maxPoints    = 11_000 // as in Prometheus
)

// query holds the parameters of one request. Its methods keep the first error in err, so that a handler can read all
// parameters and check for an error once.
type query struct {
	values url.Values
	now    time.Time
	err    error
}

// parseQuery checks the names of the parameters against the route's.
func parseQuery(r *http.Request, params []param) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, newError(http.StatusBadRequest, "escape the values of parameters: %2F for /, %20 for a space", "query string %q: %v",
			r.URL.RawQuery, err)
	}
	var names []string
	for _, p := range params {
		if !p.inPath {
			names = append(names, p.name)
		}
	}
	keys := slices.Collect(maps.Keys(values))
	sort.Strings(keys)
	for _, key := range keys {
		i := slices.IndexFunc(params, func(p param) bool { return !p.inPath && p.name == key })
		if i < 0 {
			accepted := "this endpoint takes no parameters"
			if len(names) > 0 {
				accepted = "accepted: " + strings.Join(names, ", ")
				if near := client.Nearest(key, names, 1); len(near) > 0 {
					accepted = fmt.Sprintf("did you mean %s? %s", near[0], accepted)
				}
			}
			return nil, newError(http.StatusBadRequest, accepted, "unknown parameter %q", key)
		}
		if len(values[key]) > 1 && !params[i].many {
			return nil, newError(http.StatusBadRequest, "give it once", "parameter %s is given %d times", key, len(values[key]))
		}
	}
	return &query{values: values, now: time.Now()}, nil
}

// rejectUnknown rejects a value that is not one of words, and suggests the nearest one.
func (q *query) rejectUnknown(name, value, give string, words []string) {
	hint := give + " " + strings.Join(words, ", ")
	if near := client.Nearest(value, words, 1); len(near) > 0 {
		hint = "did you mean " + near[0] + "? " + hint
	}
	q.reject(name, value, hint)
}

func (q *query) reject(name, value, hint string) {
	if q.err == nil {
		q.err = newError(http.StatusBadRequest, hint, "parameter %s: %q is not accepted", name, value)
	}
}

// get returns the value of a parameter, or false if the parameter is absent. An empty value is an error, because it is
// usually an unset variable in a script.
func (q *query) get(name string) (string, bool) {
	v, ok := q.values[name]
	if !ok {
		return "", false
	}
	if strings.TrimSpace(v[0]) == "" {
		q.reject(name, v[0], "give a value or leave the parameter out")
		return "", false
	}
	return v[0], true
}

func (q *query) list(name string) []string {
	var out []string
	for _, v := range q.values[name] {
		for word := range strings.SplitSeq(v, ",") {
			if word = strings.TrimSpace(word); word == "" {
				q.reject(name, v, "give values separated by commas, or leave the parameter out")
			} else {
				out = append(out, word)
			}
		}
	}
	return out
}

// kinds returns the values of the parameter kind. It rejects a word only if that looks like a misspelt known kind,
// because each Kubernetes controller has a kind of its own.
func (q *query) kinds() []string {
	list := q.list("kind")
	for _, k := range list {
		if !slices.Contains(kindWords(), k) && (!kindWord.MatchString(k) || len(k) > 2 && len(client.Nearest(k, kindWords(), 1)) > 0) {
			q.rejectUnknown("kind", k, "give some of", kindWords())
		}
	}
	return list
}

// kindWord matches the kind of an object of Kubernetes, in lower case.
var kindWord = regexp.MustCompile("^[a-z][a-z0-9]{0,62}$")

func kindWords() []string {
	return workload.KindNames(workload.Kinds())
}

// states returns the values of the parameter state, under their stored names.
func (q *query) states() []string {
	list := q.list("state")
	for i, s := range list {
		state, ok := client.ParseState(s)
		if !ok {
			q.rejectUnknown("state", s, "give some of", client.States())
		}
		list[i] = state
	}
	return list
}

func (q *query) pattern(name string) string {
	v, ok := q.get(name)
	if !ok {
		return ""
	}
	if _, err := path.Match(v, ""); err != nil {
		q.reject(name, v, "give a shell pattern: * any text, ? one character, [ab] one of these")
	}
	return v
}

func (q *query) time(name string) time.Time {
	v, ok := q.get(name)
	if !ok {
		return time.Time{}
	}
	t, err := client.ParseTime(v, q.now)
	if err != nil {
		q.reject(name, v, "give "+client.TimeForms)
	}
	return t
}

func (q *query) duration(name string) time.Duration {
	v, ok := q.get(name)
	if !ok {
		return 0
	}
	d, err := client.ParseDuration(v)
	if err != nil || d <= 0 {
		q.reject(name, v, "give a number above 0 with a unit: 15s, 5m, 1h")
	}
	return d
}

func (q *query) number(name string) float64 {
	v, ok := q.get(name)
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || f < 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		q.reject(name, v, "give a number, 0 or more")
	}
	return f
}

func (q *query) integer(name string, def, low, high int) int {
	v, ok := q.get(name)
	if !ok {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		q.reject(name, v, fmt.Sprintf("give a whole number from %d to %d", low, high))
	}
	return n
}

// isTrue reports whether a parameter is present and true.
func (q *query) isTrue(name string) bool {
	b := q.boolean(name)
	return b != nil && *b
}

func (q *query) boolean(name string) *bool {
	v, ok := q.get(name)
	if !ok {
		return nil
	}
	b := v == "true" || v == "1"
	if !b && v != "false" && v != "0" {
		q.reject(name, v, "give true or false")
	}
	return &b
}

func (q *query) sort(name string, keys []string) string {
	v, ok := q.get(name)
	if ok && !slices.Contains(keys, strings.TrimPrefix(v, "-")) {
		q.reject(name, v, "give one of "+strings.Join(keys, ", ")+"; with - in front for descending")
	}
	return v
}

// format returns json or csv, from the parameter or else from the Accept header.
func (q *query) format(r *http.Request) string {
	if v, ok := q.get("format"); ok {
		if v != "json" && v != "csv" {
			q.reject("format", v, "give json or csv")
		}
		return v
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		switch kind, _, _ := strings.Cut(strings.TrimSpace(part), ";"); kind {
		case "text/csv":
			return "csv"
		case "application/json", "*/*":
			return "json"
		}
	}
	return "json"
}

// oneOf returns one of words, or empty if the parameter is absent.
func (q *query) oneOf(name string, words []string) string {
	v, ok := q.get(name)
	if ok && !slices.Contains(words, v) {
		q.rejectUnknown(name, v, "give one of", words)
	}
	return v
}

// maxClockAhead is the time that the clock of a client may be ahead.
const maxClockAhead = 5 * time.Minute

func parseFilter(q *query) client.Filter {
	f := client.Filter{}
	f.IDs = q.list("id")
	f.Family, _ = q.get("family")
	f.Kinds, f.Owners, f.Nodes = q.kinds(), q.list("owner"), q.list("node")
	f.Accounts, f.Partitions, f.States, f.Sites = q.list("account"), q.list("partition"), q.states(), q.list("site")
	f.Name, f.Command = q.pattern("name"), q.pattern("command")
	f.Since, f.Until = q.time("since"), q.time("until")
	f.MinCPU = q.number("min_cpu")
	f.Running = q.boolean("running")
	within := q.boolean("within")
	f.Within = within != nil && *within
	f.Sort = q.sort("sort", client.SortKeys())
	f.Limit = q.integer("limit", defaultLimit, 1, maxLimit)
	f.Offset = q.integer("offset", 0, 0, math.MaxInt32)
	if q.err == nil && f.Since.Sub(q.now) > maxClockAhead { // running workloads would match for ever
		q.reject("since", q.values.Get("since"), "it is in the future; give a time before now")
	}
	if q.err == nil && !f.Since.IsZero() && !f.Until.IsZero() && f.Until.Before(f.Since) {
		q.reject("until", q.values.Get("until"), "give a time after since")
	}
	return f
}

func parseRange(q *query) client.Range {
	r := client.Range{From: q.time("from"), To: q.time("to"), Step: q.duration("step"), By: q.oneOf("by", client.Splits()),
		Start: q.time("start")}
	r.Site, _ = q.get("site")
	if q.err == nil && !r.From.IsZero() && !r.To.IsZero() && !r.From.Before(r.To) {
		q.reject("to", q.values.Get("to"), "give a time after from")
	}
	if q.err == nil && r.Step > 0 && r.Step < time.Second {
		q.reject("step", q.values.Get("step"), "give 1s or more")
	}
	if from, to := r.From, r.To; q.err == nil && r.Step > 0 && !from.IsZero() {
		if to.IsZero() {
			to = q.now
		}
		if n := to.Sub(from) / r.Step; n > maxPoints {
			q.reject("step", q.values.Get("step"),
				fmt.Sprintf("it would give %d points, at most %d are sent; give a longer step", n, maxPoints))
		}
	}
	return r
}

// linkNext sets the link to the next page of a list (RFC 8288), if there is one.
func linkNext(w http.ResponseWriter, r *http.Request, offset, got, total int) {
	if got == 0 || offset+got >= total {
		return
	}
	v := r.URL.Query()
	v.Set("offset", strconv.Itoa(offset+got))
	w.Header().Set("Link", "<"+r.URL.Path+"?"+v.Encode()+`>; rel="next"`)
}
