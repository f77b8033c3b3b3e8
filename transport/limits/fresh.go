package limits

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// DefaultNodeSeries is the number of series that a sender may begin for one node within 30 to 60 minutes. An agent
// normally begins some hundreds, and 30,000 with 1,000 process groups per hour. A sender with labels that change at
// every sample exceeds it.
const DefaultNodeSeries = 60_000

// ownerSeries is the number of series that may always begin for each owner on a node, and for the node itself. It
// applies even after other owners have used up the limit of the node. The sender names the owners, so their total is
// limited to twice the limit of the node.
const ownerSeries = 5_000

// NewSeriesLimits holds the limits on new series that the limits file does not set.
type NewSeriesLimits struct {
	// Learned are higher bounds of nodes that had more before there was a bound, by [NodeKey].
	Learned map[string]int
	// Live returns the number of series in memory, and Most its bound; 0 is no bound.
	Live func() int
	Most int
}

// SetNewSeriesLimits sets the limits on new series. It must be called before the first request.
func (l *Limiter) SetNewSeriesLimits(b NewSeriesLimits) { l.begun = &b }

// derivedPrefixes are name prefixes of series that repeat the content of other series. Such series are refused first.
var derivedPrefixes = []string{"container_", "kube_", "kepler_", "DCGM_FI_", "tegra_", "reckon_command_"}

// Refusal is the number of new series that were refused for one owner on one node in the last half hour, at most the series of one request.
type Refusal struct {
	Site, Node, Owner string
	Series            int
}

// NodeKey returns the node of a series: its site and node or, if it has none, its instance.
func NodeKey(ls labels.Labels) string {
	return ls.Get("site") + "\x00" + cmp.Or(ls.Get("node"), ls.Get("instance"))
}

// newSeriesCounter counts new series of nodes, and of owners on them. It stores only numbers, about 100 bytes per node and owner.
type newSeriesCounter struct {
	mu      sync.Mutex
	turn    time.Time
	now     map[string]int
	older   map[string]int
	logged  time.Time
	refused map[Refusal]int // since turn, with Series 0
}

// Refused returns the recent refusals.
func (l *Limiter) Refused() (all []Refusal) {
	l.fresh.mu.Lock()
	defer l.fresh.mu.Unlock()
	l.fresh.rotateGenerations(l.clock())
	for k, n := range l.fresh.refused {
		k.Series = n
		all = append(all, k)
	}
	return all
}

// AllowNew returns nil if a series that the store does not have may begin, and otherwise the reason.
func (r *Request) AllowNew(ls labels.Labels) error {
	b := r.l.begun
	if b == nil {
		return nil
	}
	if most := limitOr(r.c.Series, b.Most, 0); most > 0 && b.Live != nil {
		if live := b.Live(); live >= most {
			r.l.logNewSeries("the server", most)
			return fmt.Errorf(
				"the server has %d series in memory, and %d is its bound: give it more memory, send less, or raise series in the file "+
					"of limits", live, most)
		}
	}
	key := NodeKey(ls)
	most := limitOr(r.c.Nodes.Series, max(DefaultNodeSeries, b.Learned[key]), 0)
	if most == 0 {
		return nil
	}
	own, whose := r.seriesKeys(ls, key)
	whole, mine := r.newSeriesCount(own), 0
	if whole >= most {
		mine = r.newSeriesCount(whose)
	}
	view := func(p string) bool { return strings.HasPrefix(ls.Get(model.MetricNameLabel), p) }
	if whole >= most && (mine >= min(ownerSeries, most/4) || whole >= 2*most) || whole >= most-most/4 &&
		slices.ContainsFunc(derivedPrefixes, view) {
		if r.refused == nil {
			r.refused = map[Refusal]int{}
		}
		r.refused[Refusal{Site: ls.Get("site"), Node: cmp.Or(ls.Get("node"), ls.Get("instance")), Owner: ls.Get("owner")}]++
		node, who := cmp.Or(ls.Get("node"), ls.Get("instance"), "without a name"), "the node itself"
		if owner := ls.Get("owner"); owner != "" {
			who = "owner " + owner
		}
		r.l.logNewSeries(who+" on node "+node+" of sender "+r.name, most)
		return fmt.Errorf(
			"more than %d series began on node %s in half an hour, %d of them of %s, which is the bound: drop labels that change with "+
				"every sample, or raise nodes.series in the file of limits", most, node, mine, who)
	}
	if r.fresh == nil {
		r.fresh = map[string]int{}
	}
	r.fresh[own]++
	r.fresh[whose]++
	return nil
}

// seriesKeys returns the keys under which a new series is counted: the node's, and its owner's on the node.
func (r *Request) seriesKeys(ls labels.Labels, node string) (nodeKey, ownerKey string) {
	nodeKey = r.name + "\x00" + node
	return nodeKey, nodeKey + "\x00\x00" + ls.Get("owner")
}

// newSeriesCount returns the number of series that began recently under a key, including this request.
func (r *Request) newSeriesCount(key string) int {
	return r.l.fresh.count(key, r.l.clock()) + r.fresh[key]
}

// RevertNew undoes [Request.AllowNew] if no sample of the series was stored.
func (r *Request) RevertNew(ls labels.Labels) {
	if own, whose := r.seriesKeys(ls, NodeKey(ls)); r.fresh[own] > 0 {
		r.fresh[own]--
		r.fresh[whose]--
	}
}

// count returns the number of series that began recently under a key.
func (f *newSeriesCounter) count(key string, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rotateGenerations(now)
	return f.now[key] + f.older[key]
}

// add counts the new series of a request. Refused series are sent again and again, so only the most of one request counts.
func (f *newSeriesCounter) add(began map[string]int, refused map[Refusal]int, now time.Time) {
	if len(began) == 0 && len(refused) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rotateGenerations(now)
	for k, n := range refused {
		if len(f.refused) < maxMeters {
			f.refused[k] = max(f.refused[k], n)
		}
	}
	if len(f.now) >= maxMeters {
		clear(f.now)
	}
	for key, n := range began {
		f.now[key] += n
	}
}

// rotateGenerations begins a new generation if the current one is old enough. The caller holds mu.
func (f *newSeriesCounter) rotateGenerations(now time.Time) {
	if now.Sub(f.turn) >= countedTime {
		f.older = f.now
		if now.Sub(f.turn) >= 2*countedTime {
			f.older = nil
		}
		f.now, f.refused, f.turn = map[string]int{}, map[Refusal]int{}, now
	}
}

func (l *Limiter) logNewSeries(who string, limit int) {
	now := l.clock()
	l.fresh.mu.Lock()
	quiet := !l.fresh.logged.IsZero() && now.Sub(l.fresh.logged) < logEvery
	if !quiet {
		l.fresh.logged = now
	}
	l.fresh.mu.Unlock()
	if !quiet {
		l.logger.Warn(who+" is held back: too many new series", "series", limit)
	}
}
