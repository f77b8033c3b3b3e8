package attribution

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"reckon/sensor"
)

const tick = uint64(1e9)

// rig feeds a Meters and sums its streams.
type rig struct {
	m     Meters
	boot  uint64
	sums  map[string]float64 // active and idle by domain
	idle  float64
	total float64
}

func newRig() *rig { return &rig{boot: 100 * tick, sums: map[string]float64{}} }

func (r *rig) step(cpu float64, sources ...Source) { r.after(tick, cpu, sources...) }

func (r *rig) after(d uint64, cpu float64, sources ...Source) {
	r.boot += d
	for _, s := range r.m.Advance(Load{Boot: r.boot, CPU: cpu}, sources) {
		if !s.Fresh {
			continue
		}
		r.sums[s.Domain] += s.Active + s.Idle
		r.idle += s.Idle
		r.total += s.Active + s.Idle
		if s.Active < 0 || s.Idle < 0 {
			panic("energy below zero")
		}
	}
}

func joules(d sensor.Domain, zone string, v float64) sensor.Meter {
	return sensor.Meter{Domain: d, Zone: zone, Joules: v, HasJoules: true}
}

func watts(d sensor.Domain, v float64) sensor.Meter {
	return sensor.Meter{Domain: d, Watts: v, HasWatts: true}
}

func from(name string, meters ...sensor.Meter) Source { return Source{Name: name, Meters: meters} }

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Every joule counts once, however many meters measure it: core and psys beside package,
// two sources of one domain, a board around everything.
func TestEachJouleOnce(t *testing.T) {
	r := newRig()
	for i := range 21 {
		k := float64(i)
		r.step(0.5,
			from("hwmon", joules(sensor.DomainBoard, "in", 200*k), joules(sensor.DomainRail, "12V", 90*k), joules(sensor.DomainPackage, "0", 51*k)),
			from("rapl", joules(sensor.DomainPackage, "0", 50*k), joules(sensor.DomainPackage, "1", 30*k), joules(sensor.DomainCore, "0", 40*k),
				joules(sensor.DomainDRAM, "0", 10*k), joules(sensor.DomainPsys, "0", 110*k)),
			from("nvml", joules(sensor.DomainGPU, "GPU-1", 60*k)),
			from("amdgpu", joules(sensor.DomainGPU, "0000:03:00.0", 5*k)),
			from("cray", joules(sensor.DomainGPU, "0", 61*k)))
	}
	near(t, "total", r.total, 20*200)
	near(t, "packages", r.sums["package"], 20*80)
	near(t, "dram", r.sums["dram"], 20*10)
	near(t, "gpu", r.sums["gpu"], 20*65)
	near(t, "rest", r.sums["rest"], 20*45)
}

// Without a board psys is the widest, and GPUs are beside it.
func TestPsysHoldsNoGPU(t *testing.T) {
	r := newRig()
	for i := range 11 {
		k := float64(i)
		r.step(0.5, from("rapl", joules(sensor.DomainPackage, "0", 20*k), joules(sensor.DomainPsys, "0", 30*k)),
			from("nvml", joules(sensor.DomainGPU, "GPU-1", 100*k)))
	}
	near(t, "total", r.total, 10*130)
	near(t, "rest", r.sums["rest"], 10*10)
}

func TestBadReadings(t *testing.T) {
	pkg := func(v float64) Source { return from("rapl", joules(sensor.DomainPackage, "0", v)) }
	blank := 9223372036854775794.0 / 1e6
	for name, c := range map[string]struct {
		readings []float64 // joules; NaN for both is a missing reading
		want     float64
		says     string
	}{
		"steady":                    {[]float64{0, 50, 100, 150}, 150, ""},
		"blank":                     {[]float64{0, 50, blank, 150}, 150, "jumped"},
		"not a number":              {[]float64{0, 50, math.NaN(), 150}, 150, "no number"},
		"infinite":                  {[]float64{0, 50, math.Inf(1), 150}, 150, "no number"},
		"one false low reading":     {[]float64{1000, 1050, 3, 1150}, 150, "fell"},
		"starts again":              {[]float64{1000, 1050, 10, 60, 110}, 150, "fell"},
		"stands still, then all":    {[]float64{0, 50, 50, 50, 200}, 200, ""},
		"missing":                   {[]float64{0, 50, -1, -1, 200}, 200, ""},
		"a new scale after a while": {[]float64{0, 50, 1e12, 1e12 + 50, 1e12 + 100, 1e12 + 150}, 100, "jumped"},
	} {
		r := newRig()
		said := ""
		for _, v := range c.readings {
			if v == -1 {
				r.step(0.5, from("rapl"))
			} else {
				r.step(0.5, pkg(v))
			}
			if p := r.m.Problem(); p != "" {
				said = p
			}
		}
		near(t, name, r.total, c.want)
		if (c.says == "") != (said == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: it says %q, want %q", name, said, c.says)
		}
	}
}

// A power of zero under load is a fault of the meter, not a figure.
func TestZeroUnderLoad(t *testing.T) {
	r := newRig()
	for i := range 11 {
		w := 100.0
		if i >= 3 && i <= 5 {
			w = 0
		}
		r.step(0.9, from("hwmon", watts(sensor.DomainBoard, w)))
	}
	near(t, "total", r.total, 1000)
	r = newRig()
	for range 20 {
		r.step(0.9, from("hwmon", watts(sensor.DomainBoard, 0)))
	}
	if r.total != 0 || r.m.Measures() || !strings.Contains(r.m.Problem(), "zero under load") {
		t.Errorf("%v J of a meter that shows zero, %q", r.total, r.m.Problem())
	}
}

// A meter that stalls, or disappears, is replaced by the next source, and when it returns
// the energy that it counted meanwhile is not charged again.
func TestNextSource(t *testing.T) {
	for name, broken := range map[string]func(k float64) Source{
		"gone":    func(float64) Source { return from("rapl") },
		"stalled": func(float64) Source { return from("rapl", joules(sensor.DomainPackage, "0", 50*30)) },
	} {
		r := newRig()
		for i := range 301 {
			k := float64(i)
			first := from("rapl", joules(sensor.DomainPackage, "0", 50*k))
			if i > 30 && i <= 200 {
				first = broken(k)
			}
			r.step(0.5, first, from("hwmon", joules(sensor.DomainPackage, "0", 50*k)))
		}
		if r.total > 50*300+1e-6 || r.total < 50*(300-65) {
			t.Errorf("%s: %v J, want at most %v and most of it", name, r.total, 50*300)
		}
	}
}

// A model counts only while there is no measurement.
func TestModelStandsIn(t *testing.T) {
	r := newRig()
	model := Source{Name: "model", Model: true, Idle: 30, Meters: []sensor.Meter{watts(sensor.DomainBoard, 40)}}
	for i := range 101 {
		rapl := from("rapl")
		if i >= 50 {
			rapl = from("rapl", joules(sensor.DomainPackage, "0", 20*float64(i)))
		}
		r.step(0.5, rapl, model)
		if r.m.Modelled() != (i < 50) {
			t.Fatalf("tick %d: modelled is %v", i, r.m.Modelled())
		}
		if i == 49 {
			near(t, "modelled", r.total, 49*40)
			near(t, "idle", r.idle, 49*30)
		}
	}
	near(t, "with a meter", r.total, 49*40+50*20)
	for _, s := range r.m.Streams() {
		if s.Model != (s.Domain == "board") {
			t.Errorf("stream %s: model is %v", s.Domain, s.Model)
		}
	}
}

// A meter that stalls while the machine works is absent after a minute and until it
// increases, also when the machine becomes idle meanwhile. The built-in curve does not
// replace it; a model that was named does.
func TestMeterStands(t *testing.T) {
	for name, c := range map[string]struct {
		named bool
		after float64 // joules counted from when the meter stalled until it increased
	}{
		"built-in curve": {false, 0},
		"named model":    {true, 40},
	} {
		r := newRig()
		model := Source{Name: "model", Model: true, Named: c.named, Meters: []sensor.Meter{watts(sensor.DomainBoard, 40)}}
		at := 0.0
		step := func(load float64) {
			r.step(load, from("rapl", joules(sensor.DomainPackage, "0", at), joules(sensor.DomainDRAM, "0", 0)), model)
		}
		for range 30 {
			at += 50
			step(0.5)
		}
		near(t, name+": while it counts", r.total, 29*50)
		for range 60 {
			step(0.5)
		}
		if !r.m.Measures() || r.m.Problem() != "" || r.m.Modelled() {
			t.Errorf("%s: a meter that stood for a minute sharp is judged: %q", name, r.m.Problem())
		}
		before := r.total
		for i := range 200 {
			load := 0.5
			if i > 100 {
				load = 0.01
			}
			step(load)
			if !strings.HasPrefix(r.m.Problem(), "rapl package 0 has not moved") {
				t.Fatalf("%s: tick %d says %q", name, i, r.m.Problem())
			}
			if r.m.Modelled() != c.named {
				t.Fatalf("%s: tick %d, modelled is %v", name, i, r.m.Modelled())
			}
		}
		if got, want := r.total-before, 199*c.after; math.Abs(got-want) > 81 {
			t.Errorf("%s: %v J while it stood, want %v", name, got, want)
		}
		before = r.total
		for range 20 {
			at += 50
			step(0.5)
		}
		if r.m.Problem() != "" || r.m.Modelled() || r.total-before < 19*50-1e-6 || r.total-before > 20*50+1e-6 {
			t.Errorf("%s: after it moved %v J, want about %v; %q", name, r.total-before, 20*50, r.m.Problem())
		}
	}
}

// A zone that never increased is not a failed meter: it is left out without a problem report.
func TestZoneWithoutSensor(t *testing.T) {
	r := newRig()
	for i := range 200 {
		r.step(0.9, from("rapl", joules(sensor.DomainPackage, "0", 50*float64(i)), joules(sensor.DomainDRAM, "0", 7)))
		if p := r.m.Problem(); p != "" {
			t.Fatalf("tick %d says %q", i, p)
		}
	}
	near(t, "package", r.total, 199*50)
}

// Idle power is learned when the node is idle, and stays learned under load.
func TestIdle(t *testing.T) {
	r := newRig()
	at := 0.0
	run := func(n int, load float64) {
		for range n {
			at += 60 + 140*load
			r.step(load, from("rapl", joules(sensor.DomainPackage, "0", at)))
		}
	}
	run(1, 0)
	run(100, 0)
	before, all := r.idle, r.total
	near(t, "all idle", before, all)
	run(100, 0.8)
	near(t, "idle under load", r.idle-before, 100*60)
	near(t, "active under load", r.total-all-(r.idle-before), 100*140*0.8)
	// A node that was never idle: active energy is not hidden in idle energy.
	r, at = newRig(), 0
	run(200, 1)
	if r.idle != 0 {
		t.Errorf("%v J are idle on a node that never was", r.idle)
	}
}

// The sum of the streams is the energy counted by the widest meter, on any trace: slow
// meters, missing readings, wide meters that lag behind narrow ones.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig()
		haveBoard, haveDRAM, gpus := rapid.Bool().Draw(t, "board"), rapid.Bool().Draw(t, "dram"), rapid.IntRange(0, 3).Draw(t, "gpus")
		slow := rapid.IntRange(1, 10).Draw(t, "slow") // ticks in which the board's counter does not change
		packages := rapid.IntRange(1, 2).Draw(t, "packages")
		truth := map[string]float64{}
		first := map[string]float64{}
		away := map[string]int{} // consecutive ticks without a reading: ten make a meter dead
		shown, last := map[string]float64{}, map[string]float64{}
		see := func(k string, v float64) float64 {
			shown[k] = v
			if _, ok := first[k]; !ok {
				first[k] = v
			}
			return v
		}
		steps := rapid.IntRange(30, 120).Draw(t, "steps")
		const tail = 400 // in which all is read, so that the wide meter catches up with the narrow ones
		for i := range steps + tail {
			load := 0.5
			if i < steps {
				load = rapid.Float64Range(0, 1).Draw(t, "load")
			}
			var narrow float64
			add := func(k string, w float64) { truth[k] += w; narrow += w }
			var rapl, nvml, board []sensor.Meter
			end := i >= steps-1
			missing := func(what string) bool {
				if end || i == 0 || away[what] == 9 || rapid.IntRange(0, 9).Draw(t, what) != 0 {
					away[what] = 0
					return false
				}
				away[what]++
				return true
			}
			for p := range packages {
				zone := string(rune('0' + p))
				add("package"+zone, 20+100*load)
				if !missing("package" + zone) {
					rapl = append(rapl, joules(sensor.DomainPackage, zone, see("package"+zone, truth["package"+zone])))
				}
			}
			if haveDRAM {
				add("dram", 5)
				if !missing("dram") {
					rapl = append(rapl, joules(sensor.DomainDRAM, "0", see("dram", truth["dram"])))
				}
			}
			for g := range gpus {
				k := "gpu" + string(rune('0'+g))
				add(k, 40+300*load)
				if !missing(k) {
					nvml = append(nvml, joules(sensor.DomainGPU, k, see(k, truth[k])))
				}
			}
			truth["board"] += narrow + 50
			if haveBoard && !missing("board") {
				if i%slow == 0 || end {
					last["board"] = truth["board"]
				}
				board = append(board, joules(sensor.DomainBoard, "", see("board", last["board"])))
			}
			r.step(load, from("rapl", rapl...), from("nvml", nvml...), from("hwmon", board...))
		}
		counted := 0.0
		for k, v := range shown {
			if haveBoard == (k == "board") {
				counted += v - first[k]
			}
		}
		if math.Abs(r.total-counted) > 1e-6*counted {
			t.Fatalf("streams %.0f J, meters %.0f J (board %v, slow %d)", r.total, counted, haveBoard, slow)
		}
	})
}

// Meters with long outages: the energy of the wide one is counted once, whichever of the
// two is out.
func TestLongOutage(t *testing.T) {
	for name, away := range map[string]sensor.Domain{"narrow": sensor.DomainPackage, "wide": sensor.DomainBoard} {
		r := newRig()
		for i := range 201 {
			k := float64(i)
			var meters []sensor.Meter
			for _, m := range []sensor.Meter{joules(sensor.DomainPackage, "0", 50*k), joules(sensor.DomainBoard, "", 80*k)} {
				if m.Domain != away || i < 20 || i >= 120 {
					meters = append(meters, m)
				}
			}
			r.step(0.5, from("cray", meters...))
		}
		near(t, name, r.total, 200*80)
	}
}

// A restart charges the energy counted meanwhile, once.
func TestRestart(t *testing.T) {
	r := newRig()
	for i := range 31 {
		r.step(0.1, from("rapl", joules(sensor.DomainPackage, "0", 50*float64(i))), from("hwmon", joules(sensor.DomainBoard, "", 80*float64(i))))
	}
	before := r.total
	saved := r.m.State()
	idleAt, _ := r.m.Streams()[0].learned.watts()
	r.m = Meters{}
	if err := r.m.Restore(saved); err != nil {
		t.Fatal(err)
	}
	if w, ok := r.m.Streams()[0].learned.watts(); !ok || w != idleAt {
		t.Errorf("idle power %v after a restart, was %v", w, idleAt)
	}
	// 100 s later; the board's counter was reset with the agent.
	r.after(100*tick, 0.1, from("rapl", joules(sensor.DomainPackage, "0", 50*130)), from("hwmon", joules(sensor.DomainBoard, "", 0)))
	near(t, "package meanwhile", r.total-before, 50*100)
	if r.m.Problem() != "" {
		t.Errorf("it complains: %s", r.m.Problem())
	}
	for _, bad := range []State{
		{Gauges: []GaugeState{{Joules: -1}}}, {Gauges: []GaugeState{{Joules: math.NaN()}}}, {Debt: 3},
		{Streams: []StreamState{{Wait: -1}}}, {Streams: []StreamState{{Domain: "gpu"}, {Domain: "gpu"}}},
	} {
		if err := new(Meters).Restore(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(t, "n")
		use := make([]Use, n)
		device := make([]DeviceUse, n)
		for i := range use {
			use[i] = Use{CPU: rapid.Float64Range(-1, 1e10).Draw(t, "cpu"), Packages: rapid.Uint64Range(0, 3).Draw(t, "packages")}
			device[i] = DeviceUse{Busy: rapid.Float64Range(-1, 1).Draw(t, "busy"), Memory: rapid.Float64Range(0, 1e9).Draw(t, "memory"),
				HasBusy: rapid.Bool().Draw(t, "hasBusy"), HasMemory: rapid.Bool().Draw(t, "hasMemory")}
		}
		share := make([]float64, n)
		check := func(what string, ok bool) {
			sum := 0.0
			for _, s := range share {
				if s < 0 || math.IsNaN(s) {
					t.Fatalf("%s: a share is %v", what, s)
				}
				sum += s
			}
			if want := map[bool]float64{true: 1}[ok]; math.Abs(sum-want) > 1e-9 {
				t.Fatalf("%s: shares sum to %v", what, sum)
			}
		}
		check("cpu", ByCPU(share, use))
		check("package", ByPackage(share, use, 1, rapid.Float64Range(0, 1e11).Draw(t, "busy")))
		_, ok := ByDevice(share, device)
		check("device", ok)
	})
}

func TestByPackage(t *testing.T) {
	// Package 0 was busy 10 s: 6 by a job bound to it; the rest by unbound ones.
	share := make([]float64, 4)
	ByPackage(share, []Use{{6, 1}, {8, 2}, {3, 0}, {1, 3}}, 0, 10)
	for i, want := range []float64{0.6, 0, 0.3, 0.1} {
		near(t, "share", share[i], want)
	}
}

func TestByDevice(t *testing.T) {
	share := make([]float64, 2)
	for _, c := range []struct {
		use    []DeviceUse
		method string
		want   float64
	}{
		{[]DeviceUse{{Busy: 3, HasBusy: true}, {Busy: 1, HasBusy: true, Memory: 9, HasMemory: true}}, Measured, 0.75},
		{[]DeviceUse{{HasBusy: true, Memory: 1, HasMemory: true}, {Memory: 1, HasMemory: true}}, MeasuredByMemory, 0.5},
		{[]DeviceUse{{}, {}}, MeasuredEqually, 0.5},
	} {
		method, ok := ByDevice(share, c.use)
		if !ok || method != c.method || share[0] != c.want {
			t.Errorf("%+v: %s %v", c.use, method, share)
		}
	}
	if _, ok := ByDevice(nil, nil); ok {
		t.Error("nobody has a share")
	}
}

func TestAdvanceAllocatesNothing(t *testing.T) {
	r := newRig()
	meters := []sensor.Meter{joules(sensor.DomainPackage, "0", 0), joules(sensor.DomainPackage, "1", 0), joules(sensor.DomainDRAM, "0", 0), joules(sensor.DomainBoard, "", 0)}
	sources := []Source{{Name: "rapl", Meters: meters}}
	move := func() {
		r.boot += tick
		for i := range meters {
			meters[i].Joules += 50
		}
		r.m.Advance(Load{Boot: r.boot, CPU: 0.5}, sources)
	}
	for range 20 {
		move()
	}
	if n := testing.AllocsPerRun(100, move); n != 0 {
		t.Errorf("a tick allocates %v times", n)
	}
}
