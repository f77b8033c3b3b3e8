package importer

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"reckon/internal/hostlist"
	"reckon/interop/sacct"
)

// Nodes, and therefore sonar, identify an array task by its own job number. Accounting maps the
// number to the task. Its readings are stored under the id that people use.

// task is a job of accounting with an id that is not its number.
type task struct {
	Start, End int64 // Unix seconds; End is 0 while it runs
	ID         string
}

// longestTask is the time that a task without a reported end counts as running, in seconds.
const longestTask = 31 * 86400

func (t *task) ranAt(when int64) bool {
	end := cmp.Or(t.End, t.Start+longestTask)
	return t.Start-clockTolerance <= when && when <= end+clockTolerance
}

// nodeNumber returns the number that nodes use for a job, or 0 if it equals the job's id.
func nodeNumber(j *sacct.Job) uint64 {
	if j.Also == "" || j.ID == j.Raw || j.Start.IsZero() {
		return 0
	}
	n, err := strconv.ParseUint(j.Raw, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// addJobID records the id that accounting reports for a job number. It also records where readings of the job may be
// stored under another id. This includes readings imported by an older release that did not check ids.
func (st *siteState) addJobID(j *sacct.Job) {
	n := nodeNumber(j)
	if n == 0 {
		return
	}
	one := task{Start: j.Start.Unix(), ID: j.ID}
	if !j.End.IsZero() && sacct.IsFinal(j.State) {
		one.End = j.End.Unix()
	}
	list := st.Tasks[n]
	at := slices.IndexFunc(list, func(t task) bool { return t.Start == one.Start && t.ID == one.ID })
	switch {
	case at < 0:
		list = append(list, one)
		slices.SortFunc(list, func(a, b task) int { return cmp.Compare(a.Start, b.Start) })
		st.Tasks[n] = list
	case list[at].End == 0:
		list[at].End = one.End
	}
	nodes, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return // an invalid list of nodes names none
	}
	last := cmp.Or(one.End, max(j.Seen.Unix(), one.Start))
	for p := periodStart(one.Start - clockTolerance); p <= last+clockTolerance; p += periodSeconds {
		for _, node := range nodes {
			innerMap(st.remake, rebuiltNode{p, shortHost(node)})[n] = true
		}
	}
}

// shortHost returns the name of a node without its domain: Slurm's names have none, the nodes' own names often do.
func shortHost(node string) string {
	if net.ParseIP(node) != nil {
		return node
	}
	host, _, _ := strings.Cut(node, ".")
	return host
}

// jobID returns the id of a job with its first reading at a time.
func (st *siteState) jobID(number uint64, when int64) string {
	list := st.Tasks[number]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].ranAt(when) {
			return list[i].ID
		}
	}
	return strconv.FormatUint(number, 10)
}

// rebuiltNode is a node in a period in which some jobs may have a new id.
type rebuiltNode struct {
	period int64
	host   string
}

// rebuildRenamed rebuilds the series of readings of jobs with a new id.
func (st *siteState) rebuildRenamed() error {
	byPeriod := map[int64][]rebuiltNode{}
	for r := range st.remake {
		byPeriod[r.period] = append(byPeriod[r.period], r)
	}
	for p, list := range byPeriod {
		log, err := st.journal.openLog(p)
		if err != nil {
			return err
		}
		if len(log.pieces) == 0 {
			continue
		}
		ends, err := st.journal.loadEnds(p)
		if err != nil {
			return err
		}
		for node, end := range ends.nodes {
			for _, r := range list {
				if r.host != shortHost(node) {
					continue
				}
				other, err := st.hasOldNames(end.state, p, st.remake[r])
				if err != nil {
					return err
				}
				if !other {
					continue
				}
				end.records = rereadAll
				ends.nodes[node], ends.dirty = end, true // kept until it is rebuilt
				innerMap(st.dirty, p)[node] = true
			}
		}
	}
	clear(st.remake)
	return nil
}

// hasOldNames reports whether a node's state has a job with an outdated id. It checks the jobs with one of the given
// numbers that were first read in period p or later.
func (st *siteState) hasOldNames(packed []byte, p int64, numbers map[uint64]bool) (bool, error) {
	if len(packed) == 0 {
		return false, nil
	}
	node, err := unpackState(packed)
	if err != nil {
		return false, err
	}
	for k, j := range node.Jobs {
		if k.Batch && numbers[k.Job] && j.First >= p && j.ID != "slurm/"+st.jobID(k.Job, j.First) {
			return true, nil
		}
	}
	return false, nil
}

// rereadAll is the value of nodeEnd.records if all records of a node must be read again although none is new.
const rereadAll = 1 << 40
