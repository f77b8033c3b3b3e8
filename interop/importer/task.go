package importer

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"reckon/internal/hostlist"
	"reckon/internal/sorting"
	"reckon/interop/sacct"
)

// Nodes know a task of an array by a number of its own, and so does sonar. Accounting says
// which task that is: what was read of it goes under the id by which people know it.

// task is a job of accounting whose id is not its number.
type task struct {
	Start, End int64 // Unix seconds; End 0 while it ran
	ID         string
}

// longestTask is for how long a task without a reported end counts as running, in seconds.
const longestTask = 31 * 86400

func (t *task) at(when int64) bool {
	end := t.End
	if end == 0 {
		end = t.Start + longestTask
	}
	return t.Start-aside <= when && when <= end+aside
}

// number is the number by which nodes know a job; 0 when its id is that.
func numberOf(j *sacct.Job) uint64 {
	if j.Also == "" || j.ID == j.Raw || j.Start.IsZero() {
		return 0
	}
	n, err := strconv.ParseUint(j.Raw, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// learn remembers what accounting says of a number, and where to look for readings of it
// that went under another id: also of what was learned before, by a release that did not
// find them.
func (st *siteState) learn(j *sacct.Job) {
	n := numberOf(j)
	if n == 0 {
		return
	}
	one := task{Start: j.Start.Unix(), ID: j.ID}
	if !j.End.IsZero() && sacct.Over(j.State) {
		one.End = j.End.Unix()
	}
	list := st.Tasks[n]
	at := slices.IndexFunc(list, func(t task) bool { return t.Start == one.Start && t.ID == one.ID })
	switch {
	case at < 0:
		list = append(list, one)
		sorting.Func(list, func(a, b task) int { return cmp.Compare(a.Start, b.Start) })
		st.Tasks[n] = list
	case list[at].End == 0:
		list[at].End = one.End
	}
	nodes, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return // a list of nodes that can not be read names none
	}
	last := one.End
	if last == 0 {
		last = max(j.Seen.Unix(), one.Start)
	}
	for p := periodOf(one.Start - aside); p <= last+aside; p += period {
		for _, node := range nodes {
			r := remade{p, hostOf(node)}
			if st.remake[r] == nil {
				st.remake[r] = map[uint64]bool{}
			}
			st.remake[r][n] = true
		}
	}
}

// hostOf is the name of a node without its domain: Slurm's names have none, those that
// nodes have for themselves often do.
func hostOf(node string) string {
	if net.ParseIP(node) != nil {
		return node
	}
	host, _, _ := strings.Cut(node, ".")
	return host
}

// named is the id of a job of which the first reading is of a time.
func (st *siteState) named(number uint64, when int64) string {
	list := st.Tasks[number]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].at(when) {
			return list[i].ID
		}
	}
	return strconv.FormatUint(number, 10)
}

// remade is a node in a period of which some jobs may have got another id.
type remade struct {
	period int64
	host   string
}

// rename has the series of readings made again whose jobs have got another id.
func (st *siteState) rename() error {
	byPeriod := map[int64][]remade{}
	for r := range st.remake {
		byPeriod[r.period] = append(byPeriod[r.period], r)
	}
	for p, list := range byPeriod {
		log, err := st.journal.log(p)
		if err != nil {
			return err
		}
		if len(log.pieces) == 0 {
			continue
		}
		ends, err := st.journal.end(p)
		if err != nil {
			return err
		}
		for node, end := range ends.nodes {
			for _, r := range list {
				if r.host != hostOf(node) {
					continue
				}
				other, err := st.otherNames(end.state, p, st.remake[r])
				if err != nil {
					return err
				}
				if !other {
					continue
				}
				end.records = allAgain
				ends.nodes[node], ends.dirty = end, true // remembered until it is made
				if st.dirty[p] == nil {
					st.dirty[p] = map[string]bool{}
				}
				st.dirty[p][node] = true
			}
		}
	}
	clear(st.remake)
	return nil
}

// otherNames reports whether a job of one of the numbers that was first read in a period
// is known under another id than it has by now.
func (st *siteState) otherNames(packed []byte, p int64, numbers map[uint64]bool) (bool, error) {
	if len(packed) == 0 {
		return false, nil
	}
	node, err := unpackState(packed)
	if err != nil {
		return false, err
	}
	for k, j := range node.Jobs {
		if k.Batch && numbers[k.Job] && j.First >= p && j.ID != "slurm/"+st.named(k.Job, j.First) {
			return true, nil
		}
	}
	return false, nil
}

// allAgain is the number of records of a node that are in the series when all are to be read
// again though none is new.
const allAgain = 1 << 40
