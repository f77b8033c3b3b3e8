package account

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/account/attribution"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// energySums sums the energy of workloads and of the node over all exports: a counter
// that is no longer exported keeps its last value.
type energySums struct {
	rows map[string]float64
	fell string
}

func (s *energySums) take(r *rig) {
	if s.rows == nil {
		s.rows = map[string]float64{}
	}
	for k, v := range r.values {
		if strings.HasPrefix(k, "reckon_workload_energy") || strings.HasPrefix(k, "reckon_node_attributed") {
			if v < s.rows[k] {
				s.fell = k
			}
			s.rows[k] = v
		}
	}
}

func (s *energySums) sum(prefix, with string) (v float64) {
	for k, x := range s.rows {
		if strings.HasPrefix(k, prefix) && strings.Contains(k, with) {
			v += x
		}
	}
	return v
}

func (r *rig) energy(cpu float64, gpus []GPUShare, sources ...attribution.Source) {
	r.l.Energy(attribution.Load{Boot: r.boot, CPU: cpu}, sources, gpus)
}

func rapl(joules float64) attribution.Source {
	return attribution.Source{Name: "rapl", Meters: []sensor.Meter{{Domain: sensor.DomainPackage, Zone: "0", Joules: joules, HasJoules: true}}}
}

// The energy charged to workloads and other equals the energy that was split, on any
// trace of processes that come, work, end and are folded, with restarts of the agent and
// slow meters, and idle energy goes where the configuration sends it.
func TestEnergyConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		idle := rapid.SampledFrom([]IdleShare{IdleNone, IdleRequest, IdleEven}).Draw(t, "idle")
		identify := func(p *sensor.Process, parent *Part, ended bool) Identified {
			i := byGroup(p, parent, ended)
			i.Facts.RequestCores = float64(p.PGID % 3)
			return i
		}
		r := newRig(t, Config{Export: 3 * time.Second, Idle: idle, Identify: identify})
		var sums energySums
		var live []sensor.Process
		next, joules, shown := int32(10), 0.0, 0.0
		slow := rapid.IntRange(1, 4).Draw(t, "slow")
		steps := rapid.IntRange(5, 40).Draw(t, "steps")
		for i := range steps + 8 {
			last := i >= steps
			var exited []sensor.Process
			var busy uint64
			for k := 0; k < len(live); k++ {
				d := rapid.Uint64Range(0, second).Draw(t, "cpu")
				live[k].UserNanos += d
				busy += d
				if last || rapid.IntRange(0, 4).Draw(t, "ends") == 0 {
					exited = append(exited, live[k])
					live = append(live[:k], live[k+1:]...)
					k--
				}
			}
			if !last {
				for range rapid.IntRange(0, 2).Draw(t, "starts") {
					p := proc(next, next, r.boot+second/2, rapid.Uint64Range(0, second/4).Draw(t, "first"))
					next++
					busy += p.UserNanos
					if rapid.Bool().Draw(t, "short") {
						exited = append(exited, p)
					} else {
						live = append(live, p)
					}
				}
			}
			busy = min(busy, 4*second)
			r.tick(busy, live, exited...)
			load := float64(busy) / float64(4*second)
			joules += 30 + 80*load
			if i%slow == 0 || last {
				shown = joules
			}
			r.energy(load, nil, rapl(shown))
			if i%3 == 2 || last {
				r.export()
				sums.take(r)
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 && !last {
				r.restart()
			}
		}
		node := sums.sum("reckon_node_attributed", "|active|")
		got := sums.sum("reckon_workload_energy", "|active|")
		if math.Abs(node-got) > 1e-6*max(node, 1) {
			t.Fatalf("workloads have %.3f J active, the node split %.3f J", got, node)
		}
		all := node + sums.sum("reckon_node_attributed", "|idle|")
		if want := joules - 30; all > want+1e-6 || all < want-80-1e-6 {
			t.Fatalf("%.3f J were split, the meter counted %.3f J after its first reading", all, want)
		}
		shared := sums.sum("reckon_workload_energy", "|idle|")
		nodeIdle := sums.sum("reckon_node_attributed", "|idle|")
		switch {
		case idle == IdleNone && shared != 0, shared > nodeIdle*(1+1e-9):
			t.Fatalf("%s: workloads have %.3f J idle of %.3f J", idle, shared, nodeIdle)
		}
		if sums.fell != "" {
			t.Fatalf("the counter %s fell", sums.fell)
		}
	})
}

// A job that was bound to one package gets that package's energy, whatever others use
// elsewhere.
func TestEnergyByPackage(t *testing.T) {
	r := newRig(t, Config{})
	a, b, c := proc(10, 10, 0, 0), proc(20, 20, 0, 0), proc(30, 30, 0, 0)
	for i := range 4 {
		k := uint64(i)
		a.UserNanos, b.UserNanos, c.UserNanos = k*second, k*second, k*second/2
		r.tick(5*second/2, []sensor.Process{a, b, c})
		r.l.Parts(func(p *Part) {
			switch p.Workload() {
			case "group/n1/10":
				p.SetPlace(1, 0)
			case "group/n1/20":
				p.SetPlace(2, 0)
			}
		})
		j := float64(i)
		// c spent a fifth of its half second on package 0 and the rest on package 1.
		r.l.Energy(attribution.Load{Boot: r.boot, CPU: 1, Packages: []float64{1.1, 1.4}}, []attribution.Source{{Name: "rapl", Meters: []sensor.Meter{
			{Domain: sensor.DomainPackage, Zone: "0", Joules: 110 * j, HasJoules: true},
			{Domain: sensor.DomainPackage, Zone: "1", Joules: 70 * j, HasJoules: true},
		}}}, nil)
	}
	r.export()
	for id, want := range map[string]float64{"10": 3 * 100, "20": 3 * 50, "30": 3 * (10 + 20)} {
		r.want(id, r.values["reckon_workload_energy_joules_total|group/n1/"+id+"|group||alice|package|active|measured"], want)
	}
}

func TestEnergyOfGPUs(t *testing.T) {
	r := newRig(t, Config{})
	a, b := proc(10, 10, 0, 0), proc(20, 20, 0, 0)
	for i := range 3 {
		r.tick(0, []sensor.Process{a, b})
		var shares []GPUShare
		r.l.Parts(func(p *Part) {
			switch p.Workload() {
			case "group/n1/10":
				shares = append(shares, GPUShare{Account: &p.energy, Device: "GPU-1", Busy: 0.6, HasBusy: true}, GPUShare{Account: &p.energy, Device: "GPU-2", Memory: 1e9, HasMemory: true})
			case "group/n1/20":
				shares = append(shares, GPUShare{Account: &p.energy, Device: "GPU-1", Busy: 0.2, HasBusy: true}, GPUShare{Account: &p.energy, Device: "GPU-2", Memory: 3e9, HasMemory: true})
			}
		})
		j := float64(i) * 100
		r.energy(0.5, shares, attribution.Source{Name: "nvml", Meters: []sensor.Meter{
			{Domain: sensor.DomainGPU, Zone: "GPU-1", Joules: j, HasJoules: true},
			{Domain: sensor.DomainGPU, Zone: "GPU-2", Joules: j, HasJoules: true},
			{Domain: sensor.DomainGPU, Zone: "GPU-3", Joules: j, HasJoules: true}, // no process has it open
		}})
	}
	r.export()
	for k, want := range map[string]float64{
		"group/n1/10|group||alice|gpu|active|measured":           150,
		"group/n1/20|group||alice|gpu|active|measured":           50,
		"group/n1/10|group||alice|gpu|active|measured-by-memory": 50,
		"group/n1/20|group||alice|gpu|active|measured-by-memory": 150,
		"other/n1|other||root|gpu|active|measured":               200,
	} {
		r.want(k, r.values["reckon_workload_energy_joules_total|"+k], want)
	}
}

// The whole tick of energy for a thousand workloads on a node with two packages,
// memory, a board and eight GPUs.
func thousand(tb testing.TB) (r *rig, step func()) {
	live := make([]sensor.Process, 1000)
	for i := range live {
		live[i] = proc(int32(100+i), int32(100+i), second, second)
	}
	r = newRig(tb, Config{})
	meters := []sensor.Meter{
		{Domain: sensor.DomainPackage, Zone: "0"}, {Domain: sensor.DomainPackage, Zone: "1"},
		{Domain: sensor.DomainDRAM, Zone: "0"}, {Domain: sensor.DomainDRAM, Zone: "1"}, {Domain: sensor.DomainBoard},
	}
	zones := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, z := range zones {
		meters = append(meters, sensor.Meter{Domain: sensor.DomainGPU, Zone: z})
	}
	sources := []attribution.Source{{Name: "cray", Meters: meters}}
	var shares []GPUShare
	busy := []float64{2, 1.5}
	step = func() {
		r.boot += second
		for i := range meters {
			meters[i].HasJoules = true
			meters[i].Joules += 100
			if meters[i].Domain == sensor.DomainBoard {
				meters[i].Joules += 1500
			}
		}
		for _, p := range r.l.parts.order {
			p.total.user += second / 1000
		}
		r.l.Energy(attribution.Load{Boot: r.boot, CPU: 0.9, Packages: busy}, sources, shares)
	}
	r.tick(0, live)
	r.tick(0, live)
	for i, p := range r.l.parts.order {
		if p.kind == workload.Group {
			shares = append(shares, GPUShare{Account: &p.energy, Device: zones[i%8], Busy: 0.01, HasBusy: true})
		}
	}
	for range 20 {
		step()
	}
	return r, step
}

func BenchmarkEnergy(b *testing.B) {
	r, step := thousand(b)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(len(r.l.parts.order)), "workloads")
}

func TestEnergyAllocatesNothing(t *testing.T) {
	r, step := thousand(t)
	var batch metric.Batch
	r.l.Export(&batch)
	if n := testing.AllocsPerRun(20, func() {
		step()
		batch.Reset(wall)
		r.l.Export(&batch)
	}); n != 0 {
		t.Errorf("a tick of energy and an export allocate %v times", n)
	}
}
