package importer

import (
	"slices"
	"strconv"

	"reckon/internal/hostlist"
	"reckon/interop/sacct"
)

// Nodes know a task of an array by a number of its own, and so does sonar. Accounting says
// which task that is: what was read of it goes under the id by which people know it.

// task is a job of accounting whose id is not its number.
type task struct {
	Start, End int64 // Unix seconds; End 0 while it ran
	ID         string
}

// longestTask is for how long a task of which no end was told is believed to run, in seconds.
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

// learn remembers what accounting says of a number, and which nodes read of it.
func (st *siteState) learn(j *sacct.Job) error {
	n := numberOf(j)
	if n == 0 {
		return nil
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
		slices.SortFunc(list, func(a, b task) int { return int(min(max(a.Start-b.Start, -1), 1)) })
		st.Tasks[n] = list
	case list[at].End != 0 || one.End == 0:
		return nil
	default:
		list[at].End = one.End
	}
	nodes, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return nil //nolint:nilerr // a list of nodes that can not be read names none
	}
	last := one.End
	if last == 0 {
		last = max(j.Seen.Unix(), one.Start)
	}
	for p := periodOf(one.Start - aside); p <= last+aside; p += period {
		for _, node := range nodes {
			st.remake[remade{p, node}] = true
		}
	}
	return nil
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

// remade is a node in a period of which the series are made again.
type remade struct {
	period int64
	node   string
}

// rename has the series of readings made again whose jobs have got another id.
func (st *siteState) rename() error {
	for r := range st.remake {
		log, err := st.journal.log(r.period)
		if err != nil {
			return err
		}
		if len(log.pieces[r.node]) == 0 {
			continue
		}
		ends, err := st.journal.end(r.period)
		if err != nil {
			return err
		}
		if end, ok := ends.nodes[r.node]; ok {
			end.records = allAgain
			ends.nodes[r.node], ends.dirty = end, true // remembered until it is made
		}
		if st.dirty[r.period] == nil {
			st.dirty[r.period] = map[string]bool{}
		}
		st.dirty[r.period][r.node] = true
	}
	clear(st.remake)
	return nil
}

// allAgain stands for the records of a node that are in the series when all are to be read
// again though none is new.
const allAgain = 1 << 40
