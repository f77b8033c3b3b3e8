package wire

import (
	"net/url"
	"strconv"
	"time"
)

// Filter selects workloads. Zero fields select everything, values of one field are alternatives,
// and all fields must match.
//
// Its fields have the names, types and order of the store's filter, so that one converts to the
// other.
type Filter struct {
	IDs          []string // workloads by their full ids
	Family       string   // id of an array or a heterogeneous job: selects the job, its tasks and components
	Kinds        []string
	Owners       []string
	Nodes        []string
	Name         string    // shell pattern on the name: "train*"
	Since, Until time.Time // workloads that existed in this interval
	MinCPU       float64   // minimum CPU seconds
	Running      *bool
	Accounts     []string
	Partitions   []string
	States       []string // pending, running, completed, failed, ...
	Sites        []string
	Command      string // shell pattern for the program's name
	Within       bool   // add to each workload its use between Since and Until, and sort by that

	Sort   string // one of SortKeys; "-" in front for descending
	Limit  int    // 0 is the server's default
	Offset int
}

// Query encodes the filter as parameters of GET /api/reckon/v1/workloads.
func (f Filter) Query() url.Values {
	q := url.Values{}
	set := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	for key, values := range map[string][]string{
		"id":   f.IDs,
		"kind": f.Kinds, "owner": f.Owners, "node": f.Nodes,
		"account": f.Accounts, "partition": f.Partitions, "state": f.States, "site": f.Sites,
	} {
		if len(values) > 0 {
			q[key] = values
		}
	}
	set("family", f.Family)
	set("name", f.Name)
	set("command", f.Command)
	set("since", FormatTime(f.Since))
	set("until", FormatTime(f.Until))
	if f.MinCPU != 0 {
		set("min_cpu", strconv.FormatFloat(f.MinCPU, 'g', -1, 64))
	}
	if f.Running != nil {
		set("running", strconv.FormatBool(*f.Running))
	}
	if f.Within {
		set("within", "true")
	}
	set("sort", f.Sort)
	if f.Limit != 0 {
		set("limit", strconv.Itoa(f.Limit))
	}
	if f.Offset != 0 {
		set("offset", strconv.Itoa(f.Offset))
	}
	return q
}

// Range is the time range and split of a profile. The zero value is the whole run with a step that
// gives a few hundred points.
type Range struct {
	From, To time.Time
	Step     time.Duration
	// By is the split of the profile, from [Splits]; empty selects the finest measured one.
	By string
	// Start selects one run of a reused id, by a time within it or by its start; zero is the latest.
	Start time.Time
	// Site is the cluster of the id, if several clusters use the same id.
	Site string
}

// Query encodes the range as parameters of GET /api/reckon/v1/workloads/{id}.
func (r Range) Query() url.Values {
	q := url.Values{}
	if s := FormatTime(r.From); s != "" {
		q.Set("from", s)
	}
	if s := FormatTime(r.To); s != "" {
		q.Set("to", s)
	}
	if r.Step > 0 {
		q.Set("step", r.Step.String())
	}
	if r.By != "" {
		q.Set("by", r.By)
	}
	if s := FormatTime(r.Start); s != "" {
		q.Set("start", s)
	}
	if r.Site != "" {
		q.Set("site", r.Site)
	}
	return q
}

func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
