package nvml

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/account"
	"reckon/account/attribution"
	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// replay feeds a ledger with a trace, as an agent does.
type replay struct {
	*player
	t      testing.TB
	s      *Sensor
	l      *account.Ledger
	shift  float64 // of starts, opens and ends of processes, seconds
	boot0  float64
	gpu    sensor.GPUPass
	meters []sensor.Meter
	ended  map[int32]bool
	met    map[int32]bool
	values map[string]float64 // of every series, the last value
	passes int
	opens  bool // the kernel shows who opens the device
	looks  int  // a monitor opens it once in so many readings, 0 for none
	late   int  // the driver answers one in so many readings too late for the tick, 0 for none
}

const exportEvery = 15

const monitor = 4_000_000 // process group

func newReplay(t testing.TB, tr *trace, phase int, lastOfEach bool, shift float64) *replay {
	p := newPlayer(tr, phase, lastOfEach)
	s, err := openSensor(p, "/")
	if err != nil {
		t.Fatal(err)
	}
	s.reader.now = p.time
	s.reader.comm = func(pid int32) string {
		if l := tr.alive[pid]; l != nil && l.server {
			return mpsServer
		}
		return "gload"
	}
	r := &replay{player: p, t: t, s: s, shift: shift, boot0: tr.lines[0].T - 1000, ended: map[int32]bool{}, met: map[int32]bool{}, values: map[string]float64{}}
	r.l = account.New(account.Config{Node: "n1", Identify: func(p *sensor.Process, _ *account.Part, _ bool) account.Identified {
		return account.Identified{Identity: workload.Identity{
			Workload: workload.MakeID(workload.Group, fmt.Sprintf("n1/%d", p.PGID)), Owner: "alice"}}
	}})
	return r
}

func (r *replay) boot(at float64) uint64 { return uint64((at - r.boot0) * 1e9) }

// tick takes one pass over the processes, and one over the device.
func (r *replay) tick() {
	now := r.now().T
	r.passes++
	if r.s.moment = time.Minute; r.late > 0 && r.passes%r.late == 0 && r.s.flying == 0 {
		r.gate, r.s.moment = make(chan struct{}), time.Microsecond
	}
	r.s.StartGPU(r.passes%exportEvery == 0, r.passes%exportEvery == 1)
	pass := sensor.Pass{Boot: r.boot(now), Joined: true}
	open := func(pid int32) {
		pass.Opens = append(pass.Opens, sensor.Open{PID: pid, Node: sensor.Node(majorNVIDIA, 0)})
	}
	if r.looks > 0 && r.passes%r.looks == 0 {
		q := sensor.Process{PID: monitor + int32(r.passes), PPID: 1, PGID: monitor, SID: monitor, Start: r.boot(now - 0.3), State: 'S',
			Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldCPUSplit, UserNanos: 3e8, Comm: sensor.CommOf([]byte("nvidia-smi"))}
		pass.Exited = append(pass.Exited, q)
		open(q.PID)
	}
	for pid, p := range r.tr.alive {
		first, last := p.first, p.last
		if p.held {
			first, last = first+r.shift, last+r.shift
		}
		q := sensor.Process{PID: pid, PPID: 1, PGID: p.group, SID: p.group, Start: r.boot(first), State: 'S', Threads: 1,
			Have: sensor.FieldGroup | sensor.FieldParent | sensor.FieldCPUSplit, Comm: sensor.CommOf([]byte("gload"))}
		if p.held && !p.server { // it spins while the device computes
			q.UserNanos = uint64(max(min(now, last)-first, 0) * 1e9)
		}
		if r.opens && p.held && !r.met[pid] && first <= now {
			open(pid)
			r.met[pid] = true
		}
		switch {
		case first > now || r.ended[pid]:
		case last < now:
			q.Life = uint64((last - first) * 1e9)
			r.ended[pid] = true
			pass.Exited = append(pass.Exited, q)
		default:
			pass.Live = append(pass.Live, q)
		}
	}
	byPID := func(a, b sensor.Process) int { return int(a.PID - b.PID) }
	slices.SortFunc(pass.Live, byPID)
	slices.SortFunc(pass.Exited, byPID)
	r.l.Tick(r.wall(), &pass, nil)
	r.gpu.Reset()
	if err := r.s.ReadGPU(&r.gpu); err != nil {
		r.t.Fatal(err)
	}
	shares := r.l.GPU(&r.gpu)
	var err error
	if r.meters, err = r.s.ReadMeters(r.meters[:0]); err != nil {
		r.t.Fatal(err)
	}
	load := attribution.Load{Boot: pass.Boot, CPU: math.NaN(), Devices: func(zone string) (float64, bool) {
		for _, d := range r.gpu.Devices {
			if d.Device == zone && d.Have&sensor.GPUBusy != 0 && d.Span > 0 {
				return min(d.Busy/d.Span, 1), true
			}
		}
		return 0, false
	}}
	r.l.Energy(load, []attribution.Source{{Name: "nvml", Meters: r.meters}}, shares)
	if r.passes%exportEvery == 1 {
		r.export()
	}
}

func (r *replay) export() {
	var b metric.Batch
	b.Reset(r.wall())
	r.l.Export(&b)
	if err := r.s.Read(&b); err != nil {
		r.t.Fatal(err)
	}
	for _, s := range b.Samples {
		if !s.Ended() {
			r.values[s.Series.Desc.Name+"|"+strings.Join(s.Series.Values, "|")] = s.Value
		}
	}
}

func (r *replay) run() {
	for r.tick(); ; r.tick() {
		if r.gate != nil {
			close(r.gate)
		}
		if r.s.flying != 0 { // the driver answers before the trace goes on
			answer := <-r.s.done
			r.s.done <- answer
		}
		if r.gate = nil; !r.next() {
			break
		}
	}
	r.tick() // the last answer
	r.export()
	if err := r.s.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// seconds returns the device time of a group, and what of it is marked measured.
func (r *replay) seconds(group int32) (all, measured float64) {
	return r.of("reckon_workload_gpu_seconds_total", fmt.Sprintf("group/n1/%d", group))
}

func (r *replay) of(name, id string) (all, measured float64) {
	for k, v := range r.values {
		if strings.HasPrefix(k, name+"|"+id+"|") {
			all += v
			if strings.HasSuffix(k, "|measured") {
				measured += v
			}
		}
	}
	return all, measured
}

// sum sums all series with a prefix and a suffix.
func (r *replay) sum(prefix, suffix string) (v float64) {
	for k, x := range r.values {
		if strings.HasPrefix(k, prefix) && strings.HasSuffix(k, suffix) {
			v += x
		}
	}
	return v
}

// gpmOver is the busy time by GPM over the life of a process, seconds.
func (tr *trace) gpmOver(from, to float64) (busy float64) {
	for _, l := range tr.lines {
		if l.T > from && l.T <= to {
			busy += l.gpm["graphics"] / 100 * l.Span
		}
	}
	return busy
}

// worst keeps the largest deviation of each row of the table.
type worst struct {
	names []string
	rows  map[string][2]float64 // the value with the largest deviation, and that
}

func (w *worst) see(name string, value, deviation float64) {
	old, ok := w.rows[name]
	if !ok {
		w.names = append(w.names, name)
	}
	if !ok || math.Abs(deviation) > math.Abs(old[1]) {
		w.rows[name] = [2]float64{value, deviation}
	}
}

// goals are the largest deviations that are allowed. CUDA events span the gaps between launches, so the goals of dgemm and tensor are wider.
var goals = map[string]float64{
	"monitor": 0, "other": 0.005, "energy": 0.001,
	"full": 0.01, "duty40": 0.01, "one": 0.01, "fork": 0.01, "small10": 0.015, "dgemm": 0.025, "tensor": 0.025, "shorts": 0.02,
	"full gpm": 0.005, "duty40 gpm": 0.005, "one gpm": 0.005, "fork gpm": 0.005, "small10 gpm": 0.005, "dgemm gpm": 0.005,
	"tensor gpm":     0.005,
	"full estimated": 0, "duty40 estimated": 0, "one estimated": 0, "fork estimated": 0, "small10 estimated": 0, "dgemm estimated": 0,
	"tensor estimated": 0, "alternate 0": 0.02, "alternate 1": 0.02, "three": 0.02, "three idle": 0.01, "three measured": 0,
	"mps2": 0.02, "mps2 measured": 0, "h2d": 0.05, "h2d bytes": 0.1, "copies": 0.1, "dfma": 0.1,
}

// TestReplay holds what a ledger makes of an H100's answers against what the loads measured themselves, for all phases of a second and
// whatever the kernel's times of starts and ends are off by.
func TestReplay(t *testing.T) {
	judgeReplays(t, func(*replay) {})
}

// TestReplayLate is the same where one answer in seven comes after the tick in which it was asked for.
func TestReplayLate(t *testing.T) { judgeReplays(t, func(r *replay) { r.late = 7 }) }

// TestReplayOpens is the same where lists and samples miss what lives for less than a second, and the kernel shows who opened the device.
func TestReplayOpens(t *testing.T) {
	judgeReplays(t, func(r *replay) { r.opens, r.blind = true, true })
}

// TestReplayMonitor is the same beside a monitor that opens the device every other second and computes nothing.
func TestReplayMonitor(t *testing.T) { judgeReplays(t, func(r *replay) { r.opens, r.looks = true, 2 }) }

func judgeReplays(t *testing.T, set func(*replay)) {
	w := &worst{rows: map[string][2]float64{}}
	for _, suffix := range []string{"", "-2"} {
		tr := readTrace(t, suffix)
		for phase := range 4 {
			for _, last := range []bool{false, true} {
				for _, shift := range []float64{-0.25, -0.125, 0, 0.125, 0.25} {
					r := newReplay(t, tr, phase, last, shift)
					set(r)
					r.run()
					r.judge(w)
				}
			}
		}
	}
	for _, n := range w.names {
		v := w.rows[n]
		goal, ok := goals[n]
		t.Logf("%-34s %9.3f %+8.3f  goal %v", n, v[0], v[1], goal)
		if ok && math.Abs(v[1]) > goal {
			t.Errorf("%s: %v, off by %v, at most %v", n, v[0], v[1], goal)
		}
	}
}

// judge compares with the truth.
func (r *replay) judge(w *worst) {
	other, _ := r.of("reckon_workload_gpu_seconds_total", "other/n1")
	total := r.sum("reckon_node_gpu_seconds_total", "|busy")
	w.see("other", other, other/total)
	looked, _ := r.of("reckon_workload_gpu_seconds_total", fmt.Sprintf("group/n1/%d", monitor))
	w.see("monitor", looked, looked)
	for _, l := range r.tr.loads {
		sum, truth := 0.0, 0.0
		for i, c := range l.Commands {
			busy := 0.0
			for _, p := range c.Processes {
				busy += p.Busy
			}
			got, measured := r.seconds(c.PID)
			sum, truth = sum+got, truth+busy
			switch l.Name {
			case "full", "duty40", "one", "small10", "dgemm", "tensor", "fork", "shorts":
				w.see(l.Name, got, got/busy-1)
				g := r.tr.gpmOver(l.Start, l.End+1.9)
				w.see(l.Name+" gpm", got, got/g-1)
				w.see(l.Name+" estimated", got-measured, (got-measured)/got)
			case "h2d":
				w.see("h2d", got, got)
			case "alternate":
				w.see(fmt.Sprint("alternate ", i), got, got/busy-1)
			case "three":
				if busy == 0 {
					w.see("three idle", got, got/3.6)
				}
				w.see("three measured", measured, measured)
			case "mps2":
				w.see("mps2 measured", measured, measured)
			}
		}
		switch l.Name {
		case "three":
			w.see("three", sum, sum/truth-1)
		case "mps2":
			w.see("mps2", sum, sum/5.82-1)
		}
	}
	if r.tr.loads[0].Name == "full" {
		copied := r.sum("reckon_gpu_link_bytes_total", "|pcie|received")
		truth, busy, copies := 0.0, 0.0, 0.0
		for _, l := range r.tr.loads {
			for _, p := range l.Commands[0].Processes {
				if truth += p.H2D; p.H2D > 0 {
					copies = p.Busy
				}
				if l.Name == "dgemm" {
					busy = p.Busy
				}
			}
		}
		w.see("h2d bytes", copied, copied/truth-1)
		copying := r.sum("reckon_gpu_engine_busy_seconds_total", "|copy")
		w.see("copies", copying, copying/copies-1)
		dfma := r.sum("reckon_gpu_engine_busy_seconds_total", "|fp64")
		w.see("dfma", dfma, min(dfma/busy-1, 0))
	}
	if v := r.sum("reckon_gpu_busy_counted|", ""); v != 1 {
		r.t.Errorf("%v devices have counters of computing, want 1", v)
	}
	joules := r.sum("reckon_workload_energy_joules_total", "") + r.sum("reckon_node_attributed_energy_joules_total|gpu|idle", "")
	first, last := r.tr.lines[(r.at)%4], r.now()
	counter := float64(last.Energy-first.Energy) / 1e3
	w.see("energy", joules, joules/counter-1)
	eo, _ := r.of("reckon_workload_energy_joules_total", "other/n1")
	w.see("energy of other", eo, eo/counter)
}

// ownCost is the CPU time of an agent on that machine without the library, milliseconds in each second: 0.10 to 0.12 % of a core.
const ownCost = 1.2

// TestReplayCost holds the cost of the calls by their medians on hardware.
func TestReplayCost(t *testing.T) {
	var latency map[string][3]float64
	readJSON(t, "latency.json", &latency)
	latency["Power"] = [3]float64{0, 20, 20}
	tr := readTrace(t, "")
	cost := func(r *replay, seconds float64) float64 {
		us := 0.0
		for name, n := range r.calls {
			us += latency[name][1] * float64(n)
		}
		return us / seconds / 1e3
	}
	r := newReplay(t, tr, 0, false, 0)
	r.run()
	check := func(what string, goal float64) {
		ms := cost(r, float64(r.passes)) + ownCost
		t.Logf("%s: %.2f ms in each second, goal %v; calls %v", what, ms, goal, r.calls)
		if ms > goal {
			t.Errorf("%s: calls and our own CPU time take %.2f ms in each second, at most %v", what, ms, goal)
		}
	}
	check("busy", 5)
	quiet := &trace{alive: map[int32]*traceLife{}}
	for i := range 240 {
		l := tr.lines[1+i%8]
		l.T = tr.lines[0].T + float64(i)/4
		l.Energy = tr.lines[0].Energy + uint64(i)*19_000
		quiet.lines = append(quiet.lines, l)
	}
	r = newReplay(t, quiet, 0, false, 0)
	r.run()
	check("rest", 3)
}
