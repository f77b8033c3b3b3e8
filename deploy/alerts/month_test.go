package alerts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/common/model"
)

// held is an alert that held from one time to another.
type held struct {
	labels  model.LabelSet
	from    time.Duration
	to      time.Duration
	planted int // which incident it is of; -1: none
}

// message is a message to a receiver.
type message struct {
	receiver string
	at       time.Duration
	planted  []int
	others   int
}

// month is four weeks of a site of 16 nodes: what was planted, with all the alerts that it
// raises, and the alerts that are always there.
func month() (alerts []held, planted []time.Duration) {
	r := rand.New(rand.NewPCG(1, 2))
	label := func(pairs ...string) model.LabelSet {
		l := model.LabelSet{"site": "lab"}
		for i := 0; i < len(pairs); i += 2 {
			l[model.LabelName(pairs[i])] = model.LabelValue(pairs[i+1])
		}
		return l
	}
	const minute, hour, day = time.Minute, time.Hour, 24 * time.Hour
	plant := func(at time.Duration, list ...held) {
		for _, h := range list {
			h.from, h.to, h.planted = h.from+at, h.to+at, len(planted)
			alerts = append(alerts, h)
		}
		planted = append(planted, at)
	}
	for i := range 10 { // nodes that go down for hours
		node := fmt.Sprint("cpu", i)
		plant(time.Duration(i)*67*hour+3*hour,
			held{labels: label("alertname", "AgentSilent", "node", node, "severity", "warning"), from: 6 * minute, to: 5 * hour},
			held{labels: label("alertname", "NodeDownInSlurm", "node", node, "state", "down", "severity", "critical"), from: 10 * minute, to: 5 * hour},
			held{labels: label("alertname", "NodeDown", "node", node, "severity", "critical"), from: 11 * minute, to: 5 * hour},
			held{labels: label("alertname", "SensorLost", "node", node, "sensor", "nvml", "severity", "warning"), from: 12 * minute, to: 5 * hour})
	}
	for i := range 6 { // disks that fill: first soon, then full
		node := fmt.Sprint("io", i)
		plant(time.Duration(i)*109*hour+7*hour,
			held{labels: label("alertname", "DiskFullSoon", "node", node, "mountpoint", "/scratch", "severity", "warning"), from: 5 * minute, to: 20 * hour},
			held{labels: label("alertname", "DiskFull", "node", node, "mountpoint", "/scratch", "severity", "critical"), from: 12 * hour, to: 20 * hour})
	}
	for i := range 8 { // GPUs with errors
		plant(time.Duration(i)*83*hour+11*hour, held{labels: label("alertname", "GPUErrors", "node", fmt.Sprint("gpu", i), "index", "1", "severity", "critical"), from: minute, to: hour})
	}
	plant(500*hour, held{labels: label("alertname", "ServerDiskFull", "server", "s", "severity", "critical"), from: 5 * minute, to: 9 * hour})
	plant(300*hour, held{labels: label("alertname", "ServerBehind", "server", "s", "severity", "warning"), from: 10 * minute, to: 4 * hour})
	for d := range 28 { // what people do, every day
		for k := range 40 {
			owner, work, from := fmt.Sprint("user", r.IntN(40)), fmt.Sprintf("slurm/%d", d*100+k), time.Duration(d)*day+time.Duration(r.Int64N(int64(day)))
			rule := []string{"gpu-unused", "over-requested", "many-small-jobs", "anomaly"}[k%4]
			alerts = append(alerts, held{label("alertname", "Finding", "finding", work, "rule", rule, "owner", owner, "workload", work, "severity", "warning"), from, from + 10*hour, -1})
			if rule == "gpu-unused" {
				alerts = append(alerts, held{label("alertname", "JobIdleOnGPUs", "owner", owner, "workload", work, "severity", "warning"), from, from + 2*hour, -1})
			}
		}
		plant(time.Duration(d)*day+5*hour, held{labels: label("alertname", "OutOfMemoryKill", "node", fmt.Sprint("cpu", d%10), "severity", "warning"), to: hour})
		alerts = append(alerts,
			held{label("alertname", "MemoryFullSoon", "node", fmt.Sprint("cpu", d%7), "severity", "warning"), time.Duration(d)*day + 9*hour, time.Duration(d)*day + 10*hour, -1})
	}
	return alerts, planted
}

// messages plays the routes and the inhibition of a configuration over alerts: a group is reported
// group_wait after its first alert, and at most every group_interval again when something new
// is in it; a group is forgotten once nothing in it holds any more. Routes, grouping labels and matchers are Alertmanager's own; the clock is not.
func messages(cfg *amconfig.Config, alerts []held) (out []message) {
	root := dispatch.NewRoute(cfg.Route, nil)
	var rules []*inhibit.InhibitRule
	for _, r := range cfg.InhibitRules {
		rules = append(rules, inhibit.NewInhibitRule(r))
	}
	inhibited := func(h *held, at time.Duration) bool {
		for _, r := range rules {
			if !r.TargetMatchers.Matches(h.labels) {
				continue
			}
			for i := range alerts {
				s := &alerts[i]
				if s.from > at || s.to < at || s == h || !r.SourceMatchers.Matches(s.labels) {
					continue
				}
				same := true
				for name := range r.Equal {
					same = same && s.labels[name] == h.labels[name]
				}
				if same {
					return true
				}
			}
		}
		return false
	}
	type group struct {
		opts  dispatch.RouteOpts
		of    []*held
		first time.Duration
	}
	groups := map[string]*group{}
	for i := range alerts {
		h := &alerts[i]
		for _, route := range root.Match(h.labels) {
			var key strings.Builder
			key.WriteString(route.Key())
			names := []string{}
			for name := range route.RouteOpts.GroupBy {
				names = append(names, string(name))
			}
			slices.Sort(names)
			for _, name := range names {
				key.WriteString("|" + name + "=" + string(h.labels[model.LabelName(name)]))
			}
			g := groups[key.String()]
			if g == nil {
				g = &group{opts: route.RouteOpts, first: h.from}
				groups[key.String()] = g
			}
			g.of = append(g.of, h)
			g.first = min(g.first, h.from)
		}
	}
	for _, g := range groups {
		told := map[*held]bool{}
		for at := g.first + g.opts.GroupWait; at < 29*24*time.Hour; at += g.opts.GroupInterval {
			next, ok := following(g.of, at)
			if !ok {
				break
			}
			if next > at { // nothing holds: the group starts again with its next alert
				at = next + g.opts.GroupWait
			}
			m := message{receiver: g.opts.Receiver, at: at}
			fresh := false
			for _, h := range g.of {
				if h.from > at || h.to < at || told[h] || inhibited(h, at) {
					continue
				}
				fresh, told[h] = true, true
				if h.planted >= 0 {
					m.planted = append(m.planted, h.planted)
				} else {
					m.others++
				}
			}
			if fresh {
				out = append(out, m)
			}
		}
	}
	return out
}

// following is the given time while an alert holds, else the begin of the next; false when
// there is none.
func following(of []*held, at time.Duration) (next time.Duration, ok bool) {
	for _, h := range of {
		if from := max(at, h.from); h.to >= at && (!ok || from < next) {
			next, ok = from, true
		}
	}
	return next, ok
}

// TestMonth holds the example to what one person can live with.
func TestMonth(t *testing.T) {
	cfg, err := amconfig.LoadFile("alertmanager.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts, planted := month()
	sent, about := 0, 0
	first := map[int]time.Duration{}
	for _, m := range messages(cfg, alerts) {
		if m.receiver == "nobody" {
			continue
		}
		sent++
		if len(m.planted) > 0 {
			about++
		}
		for _, p := range m.planted {
			if at, ok := first[p]; !ok || m.at < at {
				first[p] = m.at
			}
		}
	}
	t.Logf("%d alerts, %d planted incidents: %d messages, %d of them about one", len(alerts), len(planted), sent, about)
	for p, at := range planted {
		if told, ok := first[p]; !ok || told-at > 15*time.Minute {
			t.Errorf("incident %d at %v was reported after %v (%t)", p, at, told-at, ok)
		}
	}
	if sent > 70 || float64(about) < 0.9*float64(sent) {
		t.Errorf("%d messages in a month, %d of them about something planted", sent, about)
	}
}
