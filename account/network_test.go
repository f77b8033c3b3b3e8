package account

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/account/tally"
	"reckon/figure"
	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/task/traffic"
	"reckon/workload"
)

func (r *rig) sentBy(id, owner string) float64 {
	kind, _, _ := strings.Cut(id, "/")
	return r.values["reckon_workload_network_bytes_total|"+id+"|"+kind+"||"+owner+"|transmit|tcp|elsewhere"]
}

const away = "reckon_node_network_payload_bytes_total|transmit|tcp|elsewhere"

// Traffic is charged to the process that moved it, also when that ended in the tick, when
// it is not identified yet, and when its id was reused by another.
func TestTrafficIsCharged(t *testing.T) {
	r := newRig(t, Config{})
	old := proc(10, 10, 5*second, 2*second)
	r.tick(0, []sensor.Process{old})
	r.traffic(sent(10, 5*second, 100))
	gone := proc(20, 20, r.boot+5, 2*second) // with enough CPU time not to be folded into short work
	r.tick(2*second, []sensor.Process{old}, gone)
	r.traffic(sent(20, r.boot-second+5, 40), sent(30, r.boot+7, 5), sent(10, 3*second, 7))
	young := proc(30, 10, r.boot-second+7, 0)
	for range 2 {
		r.tick(0, []sensor.Process{old, young})
		r.traffic()
	}
	r.export()
	r.want("a process that lives, and one that was not known yet", r.sentBy("group/n1/10", "alice"), 105)
	r.want("one that ended", r.sentBy("group/n1/20", "alice"), 40)
	r.want("nobody yet", r.sentBy("other/n1", "root"), 0)
	for range tally.MaxWaitTicks - 3 {
		r.tick(0, []sensor.Process{old})
		r.traffic()
	}
	r.export()
	r.want("within patience", r.sentBy("other/n1", "root"), 0)
	r.tick(0, []sensor.Process{old})
	r.traffic()
	r.export()
	r.want("one that never became known", r.sentBy("other/n1", "root"), 7)
	r.want("the node", r.values[away], 152)
}

// TestTrafficConserved: over folding, ends and restarts, the sum of all charges is the traffic
// of all sockets.
func TestTrafficConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{Export: 3 * time.Second})
		var total, charged float64
		last := map[string]float64{}
		var pid int32 = 100
		live := []sensor.Process{proc(10, 10, 5*second, 0)}
		export := func() {
			var b metric.Batch
			b.Reset(wall.Add(time.Duration(r.boot)))
			r.l.Export(&b)
			for _, s := range b.Samples {
				if s.Series.Desc.Name != "reckon_workload_network_bytes_total" || s.Ended() {
					continue
				}
				k := strings.Join(s.Series.Values, "|")
				if s.Value < last[k] {
					t.Fatalf("%s fell from %v to %v", k, last[k], s.Value)
				}
				charged += s.Value - last[k]
				last[k] = s.Value
			}
		}
		for range rapid.IntRange(5, 40).Draw(t, "ticks") {
			var ended []sensor.Process
			var moved []sensor.TallyRow
			for range rapid.IntRange(0, 3).Draw(t, "born") {
				pid++
				p := proc(pid, pid, r.boot+uint64(pid), 0)
				n := rapid.Uint64Range(maxReducedIO, 1<<40).Draw(t, "bytes")
				total += float64(n)
				moved = append(moved, sent(pid, p.Start, n)...)
				if rapid.Bool().Draw(t, "short") {
					ended = append(ended, p)
				} else {
					live = append(live, p)
				}
			}
			if len(live) > 3 {
				ended, live = append(ended, live[1]), append(live[:1:1], live[2:]...)
			}
			if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
				r.restart()
			}
			r.tick(0, live, ended...)
			pass := passOf(moved)
			if rapid.IntRange(0, 5).Draw(t, "full") == 0 {
				pass = unowned(moved, sent(0, 0, 11))
				total += 11
			}
			r.l.Tally(traffic.Spec, pass)
			export()
		}
		r.tick(0, nil, live...)
		for range tally.MaxWaitTicks {
			r.traffic()
			export()
			r.tick(0, nil)
		}
		r.export()
		if node := r.values[away]; node != total {
			t.Fatalf("the node moved %v bytes, want %v", node, total)
		}
		if charged != total {
			t.Fatalf("workloads and other were charged %v bytes of %v", charged, total)
		}
	})
}

// Loopback is a series of its own; no traffic at all is a series of 0, and traffic that was
// never counted is an absent series.
func TestTrafficSeries(t *testing.T) {
	r := newRig(t, Config{})
	// An account with all series: it used more than a second.
	p, idle := proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)
	r.tick(0, []sensor.Process{p, idle})
	r.export()
	for k := range r.values {
		if strings.Contains(k, "network") || strings.Contains(k, "loopback") {
			t.Errorf("%s without a source", k)
		}
	}
	s := sent(10, 5*second, 1000)
	s = append(s, row(10, 5*second, traffic.Bytes(traffic.UDP, traffic.ScopeLoopback, sensor.Receive), 64),
		row(10, 5*second, traffic.Messages(traffic.UDP, sensor.Receive), 2),
		row(10, 5*second, traffic.Opened, 3), row(10, 5*second, traffic.Accepted, 2), row(10, 5*second, traffic.Retransmit, 1))
	r.traffic(s)
	r.export()
	of := "|group/n1/10|group||alice"
	for k, want := range map[string]float64{
		"reckon_workload_network_bytes_total" + of + "|transmit|tcp|elsewhere":                1000,
		"reckon_workload_network_bytes_total" + of + "|receive|tcp|elsewhere":                 0,
		"reckon_workload_loopback_bytes_total" + of + "|receive|udp":                          64,
		"reckon_workload_network_messages_total" + of + "|receive|udp":                        2,
		"reckon_workload_network_connections_total" + of + "|client":                          3,
		"reckon_workload_network_connections_total" + of + "|server":                          2,
		"reckon_workload_network_retransmits_total" + of:                                      1,
		"reckon_workload_network_bytes_total|group/n1/20|group||alice|transmit|tcp|elsewhere": 0,
		"reckon_workload_network_bytes_total|group/n1/20|group||alice|receive|tcp|elsewhere":  0,
		"reckon_node_network_payload_bytes_total|receive|udp|loopback":                        64,
		"reckon_figure_exactness|network_bytes|group|agent_start||":                           float64(figure.AtLeast),
	} {
		if got, ok := r.values[k]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", k, got, ok, want)
		}
	}
	r.tick(0, []sensor.Process{p, idle})
	r.traffic()
	r.export()
	if _, ok := r.values["reckon_figure_exactness|network_bytes|group|sockets||"]; !ok {
		t.Errorf("not exact after the first export: %v", r.degrees("group"))
	}
	r.l.Tally(traffic.Spec, unowned(sent(0, 0, 1)))
	r.export()
	if d, ok := r.degrees("group")["network_bytes full_table"]; !ok || d != figure.AtLeast {
		t.Errorf("with traffic that could not be charged: %v", r.degrees("group"))
	}
}

// Short work with much traffic has its own series or is folded, but is never lost.
func TestShortTraffic(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second})
	r.tick(0, nil)
	for i := range int32(5) {
		start := r.boot + uint64(i)
		r.tick(0, nil, proc(100+i, 100+i, start, 1000))
		r.traffic(sent(100+i, start, 10000))
	}
	r.tick(0, nil)
	r.traffic()
	r.tick(0, nil)
	r.export()
	r.want("short work", r.sentBy("short/alice/n1", "alice"), 50000)
	rates := r.l.Live(nil)
	for _, row := range rates {
		if !row.KnowNetwork {
			t.Errorf("%s: its traffic is not known", row.Workload)
		}
	}
}

func TestLiveTraffic(t *testing.T) {
	r := newRig(t, Config{})
	p := proc(10, 10, 5*second, 0)
	r.tick(0, []sensor.Process{p})
	r.tick(0, []sensor.Process{p})
	r.traffic(sent(10, 5*second, 500))
	for i, want := range []float64{500, 0} {
		for _, row := range r.l.Live(nil) {
			if string(row.Workload) == "group/n1/10" && (row.TransmitRate != want || row.ReceiveRate != 0) {
				t.Errorf("tick %d: sends %v a second, want %v", i, row.TransmitRate, want)
			}
		}
		r.tick(0, []sensor.Process{p})
		r.traffic()
	}
}

// TestActivityOfTheYoung: a pass that sees a process between its fork and its setsid(2) or setuid(2) puts it to its
// parent's group; what it did after the pass belongs to its own.
func TestActivityOfTheYoung(t *testing.T) {
	byUser := func(p *sensor.Process, parent *Part, ended bool) Identified {
		found := byGroup(p, parent, ended)
		found.Owner = map[uint32]string{0: "root", 1: "alice"}[p.UID]
		if p.Cgroup == 3 {
			found.Workload = "slurm/1"
		}
		return found
	}
	group := func(p *sensor.Process) { p.PGID, p.SID, p.UID = 20, 20, 1 }
	user := func(p *sensor.Process) { p.UID = 1 }
	for what, c := range map[string]struct {
		forked, after func(*sensor.Process)
		want          string
	}{
		"a new session of another user": {nil, group, "group/n1/20"},
		"another user":                  {nil, user, "group/n1/10"},
		"another user in a job":         {func(p *sensor.Process) { p.Cgroup, p.Have = 3, p.Have|sensor.FieldCgroup }, user, "slurm/1"},
	} {
		for _, ends := range []string{"ends", "lives", "ends after an export", "is restarted"} {
			t.Run(what+" "+ends, func(t *testing.T) {
				r := newRig(t, Config{Identify: byUser, Export: 15 * time.Second})
				r.pass.Joined, r.users = true, true
				shell := proc(10, 10, 5*second, 2*second)
				r.tick(0, []sensor.Process{shell})
				p := proc(20, 10, r.boot+1, 0)
				p.PPID = 10
				if c.forked != nil {
					c.forked(&p)
				}
				r.tick(0, []sensor.Process{shell, p})
				c.after(&p)
				p.UserNanos = 2 * second
				activity := func(bytes uint64) {
					r.traffic(sent(20, p.Start, bytes))
					r.waited(20, p.Start, bytes*uint64(time.Millisecond))
				}
				activity(100)
				live := []sensor.Process{shell, p}
				switch ends {
				case "ends after an export":
					r.export()
					fallthrough
				case "ends":
					r.tick(2*second, []sensor.Process{shell}, p)
					live = live[:1]
				case "is restarted":
					r.restart()
					fallthrough
				case "lives":
					r.tick(2*second, live)
				}
				activity(11)
				r.tick(0, live)
				activity(0)
				r.export()
				kind := string(workload.ID(c.want).Kind())
				r.want("CPU time", r.cpu(c.want, "", "alice"), 2)
				r.want("traffic", r.sentBy(c.want, "alice"), 111)
				r.want("waits", r.values["reckon_workload_io_wait_seconds_total|"+c.want+"|"+kind+"||alice"], 0.111)
				r.want("traffic of the parent", r.sentBy("group/n1/10", "root"), 0)
				r.want("traffic of the node", r.values[away], 111)
			})
		}
	}
}

// TestLateTraffic: bytes of a process in a process group that has been folded into the short workload are charged to that workload in the same tick.
func TestLateTraffic(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second})
	r.tick(0, nil)
	start := r.boot + 1
	r.tick(0, nil, proc(20, 20, start, 1000))
	r.tick(0, nil)
	r.export() // folds the group
	r.traffic(sent(20, start, 10000))
	r.tick(0, nil)
	r.export()
	r.want("short work", r.sentBy("short/alice/n1", "alice"), 10000)
	r.want("other", r.sentBy("other/n1", "root"), 0)
}

// TestUnsplicedTraffic: where the kernel does not let spliced payload be counted, traffic is at least what was counted, and only there.
func TestUnsplicedTraffic(t *testing.T) {
	r := newRig(t, Config{})
	live := []sensor.Process{proc(10, 10, 5*second, 2*second)}
	r.tick(0, live)
	r.traffic()
	r.export()
	for _, unspliced := range []bool{true, false, true} {
		r.tick(0, live)
		pass := passOf(sent(10, 5*second, 100))
		if unspliced {
			pass.Lacks = append(pass.Lacks, sensor.LackSpliced)
		}
		r.l.Tally(traffic.Spec, pass)
		r.export()
		if got := r.worst("network_bytes", "group/n1/10"); (got == figure.AtLeast) != unspliced {
			t.Errorf("not counted %v: %v", unspliced, got)
		}
	}
}

// The first reading of a source has what came since the tick before, so that its series begin with a zero before the first export: else
// that amount is in no increase.
func TestFirstTrafficBeginsWithZero(t *testing.T) {
	r := newRig(t, Config{})
	old := proc(10, 10, 5*second, 2*second)
	r.tick(0, []sensor.Process{old})
	r.tick(0, []sensor.Process{old})
	r.traffic(sent(10, 5*second, 100))
	var b metric.Batch
	b.Reset(wall.Add(time.Duration(r.boot)))
	r.l.Export(&b)
	n := 0
	for _, s := range b.Samples {
		if d := s.Series.Desc; d == traffic.Spec.Sets[0].Series[0].Total && s.Value > 0 {
			if n++; s.Series.Created == 0 || s.Series.Created >= b.Time.UnixMilli() {
				t.Errorf("%v is %v at %d, and was zero at %d", s.Series.Values, s.Value, b.Time.UnixMilli(), s.Series.Created)
			}
		}
	}
	if n == 0 {
		t.Error("no series of the node has traffic")
	}
}
