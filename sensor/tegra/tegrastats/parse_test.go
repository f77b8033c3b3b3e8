package tegrastats

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/samples.golden")

// samples returns the recorded lines by their names, in order.
func samples(t testing.TB) (names []string, lines map[string][]byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/samples.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines = make(map[string][]byte)
	name := ""
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, "#! "); ok {
			name, _, _ = strings.Cut(rest, " |")
			names = append(names, name)
		} else if name != "" && strings.TrimSpace(l) != "" {
			lines[name] = []byte(l)
		}
	}
	return names, lines
}

func show(s *Stats) string {
	var b strings.Builder
	value := func(name string, v Value) {
		if v.OK {
			fmt.Fprintf(&b, " %s=%g", name, v.V)
		}
	}
	engine := func(e Engine) {
		fmt.Fprintf(&b, "  engine %s off=%v", e.Name, e.Off)
		value("busy", e.Busy)
		value("hertz", e.Hertz)
		b.WriteByte('\n')
	}
	b.WriteString("  memory")
	value("used", s.RAMUsed)
	value("total", s.RAMTotal)
	value("swap", s.SwapUsed)
	value("swaptotal", s.SwapTotal)
	value("cached", s.SwapCached)
	value("blocks", s.FreeBlocks)
	value("blocksize", s.FreeBlockSize)
	value("fg", s.Foreground)
	value("bg", s.Background)
	b.WriteString("\n  cpus")
	for _, c := range s.CPUs {
		if !c.Online {
			b.WriteString(" off")
			continue
		}
		fmt.Fprintf(&b, " %g@%g", c.Busy.V, c.Hertz.V/1e6)
	}
	b.WriteByte('\n')
	for _, e := range []Engine{s.GPU, s.Memory} {
		if e.Name != "" {
			engine(e)
		}
	}
	fmt.Fprintf(&b, "  clusters %v\n", s.Clusters)
	for _, e := range s.Engines {
		engine(e)
	}
	b.WriteString("  celsius")
	for _, t := range s.Temperatures {
		fmt.Fprintf(&b, " %s=%g", t.Name, t.Celsius)
	}
	b.WriteString("\n  watts")
	for _, r := range s.Rails {
		fmt.Fprintf(&b, " %s=%.3f", r.Name, r.Watts)
		if r.Average.OK {
			fmt.Fprintf(&b, "(%.3f)", r.Average.V)
		}
	}
	if name, w, ok := Total(s.Rails); ok {
		fmt.Fprintf(&b, "\n  total %s=%.3f", name, w)
	}
	b.WriteByte('\n')
	return b.String()
}

// TestSamples reads lines of ten boards and compares all parsed figures.
func TestSamples(t *testing.T) {
	names, lines := samples(t)
	if len(names) != 36 || len(lines) != 36 {
		t.Fatalf("%d records, %d lines, want 36", len(names), len(lines))
	}
	var p Parser
	var s Stats
	var got strings.Builder
	for _, n := range names {
		if !p.Parse(lines[n], &s) {
			t.Errorf("%s: not understood", n)
		}
		got.WriteString(n + "\n" + show(&s))
	}
	const golden = "testdata/samples.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got.String() {
		t.Errorf("what was read is not %s (%v); look at the difference, then run with -update", golden, err)
	}
}

var (
	temperatures = regexp.MustCompile(`@-?[0-9.]+C`)
	offZones     = regexp.MustCompile(`@-256C`)
	railValues   = regexp.MustCompile(` -?[0-9]+(mW)?/-?[0-9]+(mW)?(/[0-9]+mW)?( |\n)| [0-9]+mW\n`)
)

// By an independent count, no temperature and no rail of a line is missing: anything that
// the parser drops would be missing from the golden file unnoticed.
func TestNothingIsDropped(t *testing.T) {
	names, lines := samples(t)
	var p Parser
	var s Stats
	for _, n := range names {
		p.Parse(lines[n], &s)
		text := bytes.ReplaceAll(lines[n], []byte(" "), []byte("  ")) // so that matches do not share a space
		count := func(r *regexp.Regexp) int { return len(r.FindAll(text, -1)) }
		if got, want := len(s.Temperatures), count(temperatures)-count(offZones); got != want {
			t.Errorf("%s: %d temperatures, want %d", n, got, want)
		}
		if got, want := len(s.Rails), count(railValues)-bytes.Count(lines[n], []byte(" NC ")); got != want {
			t.Errorf("%s: %d rails, want %d", n, got, want)
		}
	}
}

func TestTotals(t *testing.T) {
	_, lines := samples(t)
	var p Parser
	var s Stats
	for name, want := range map[string]struct {
		rail  string
		watts float64
	}{
		"nx-jp4.4-a":             {"VDD_IN", 6.140},
		"nx-jp5.1.2-a":           {"VDD_IN", 2.763},
		"nano-jp4.6.1-a":         {"POM_5V_IN", 1.750},
		"tx2-l4t32.2-user":       {"VDD_IN", 3.140},
		"agx-xavier-user":        {SumOfRails, 1.155 + .385 + 2.504 + .192 + 2.692},
		"agx-orin-jp5-root":      {SumOfRails, 2.390 + .796 + 3.522 + .301},
		"agx-orin-dla-busy":      {SumOfRails, 3.150 + 14.312 + 4.968 + 1.091},
		"thor-r38.4-a":           {SumOfRails, 4.165 + 4.126},
		"agx-orin-jp7.2":         {SumOfRails, 5.139 + 3.268 + 5.5},
		"agx-orin-jp6-short":     {SumOfRails, 2.171},
		"orin-nano-jp6-root":     {"VDD_IN", 12.479},
		"tx2-jp4-user-noswap":    {"VDD_IN", 3.624},
		"orin-nx-user-mixed":     {"", 0},
		"agx-orin-jp5-user":      {"", 0},
		"tx2-busy-negtemp":       {"VDD_IN", 14.025},
		"xavier-nx-jp5-user":     {"VDD_IN", 5.542},
		"orin-nx-jp6-engines":    {"VDD_IN", 17.946},
		"agx-orin-jp5-notj":      {SumOfRails, 4.788 + .798 + 3.842 + .707},
		"orin-nano-jp6-idle-avg": {"VDD_IN", 5.251},
	} {
		if lines[name] == nil {
			t.Errorf("no sample %s", name)
		}
		p.Parse(lines[name], &s)
		rail, watts, ok := Total(s.Rails)
		if want.rail == "" {
			if ok {
				t.Errorf("%s: a total of %v W without rails", name, watts)
			}
			continue
		}
		if rail != want.rail || math.Abs(watts-want.watts) > 1e-9 {
			t.Errorf("%s: %s %v W, want %s %v W", name, rail, watts, want.rail, want.watts)
		}
	}
}

// Forms that no recorded line has: other releases, and possible future figures.
func TestForms(t *testing.T) {
	var p Parser
	for line, want := range map[string]func(*Stats) bool{
		"RAM 1009/3854MB (lfb 521x4MB) cpu [0%,5%,off,0%]@102 EMC 3%@1600 AVP 0%@12 VDE 0 GR3D 7%@76 EDP limit 1734": func(s *Stats) bool {
			return len(s.CPUs) == 4 && s.CPUs[1].Busy.V == .05 && s.CPUs[3].Hertz.V == 102e6 && !s.CPUs[2].Online &&
				s.GPU.Busy.V == .07 && s.Memory.Hertz.V == 1600e6 && len(s.Engines) == 2
		},
		"RAM 2/4GB SWAP 1/2GB (cached 512kB)": func(s *Stats) bool {
			return s.RAMTotal.V == 4<<30 && !s.FreeBlocks.OK && s.SwapCached.V == 512<<10
		},
		"VDD_GPU -392mW/-392mW VIN 28736mW/27000mW/28000mW VDD_CPU_SOC_MSS 4W/3.5W": func(s *Stats) bool {
			name, w, _ := Total(s.Rails)
			return len(s.Rails) == 3 && s.Rails[0].Watts == -.392 && s.Rails[2].Watts == 4 && s.Rails[2].Average.V == 3.5 && name == "VIN" && w == 28.736
		},
		"GR3D_FREQ 55%@[1300,1100] NVENC0_FREQ 9%@[5] GR3D_PCI 3%@2505": func(s *Stats) bool {
			return len(s.Clusters) == 2 && s.Clusters[0] == 1300e6 && s.GPU.Hertz.V == 1300e6 && len(s.Engines) == 2 && s.Engines[1].Name == "GR3D_PCI"
		},
		"GR3D_FREQ @[0,0,0]": func(s *Stats) bool { return !s.GPU.Busy.OK && len(s.Clusters) == 3 },
		"NEW_UNIT xyz tj@40C": func(s *Stats) bool {
			return len(s.Engines) == 0 && len(s.Temperatures) == 1 && s.Temperatures[0].Celsius == 40
		},
		"a@-256C b@-256.000C c@-200C d@-40.5C": func(s *Stats) bool {
			return len(s.Temperatures) == 1 && s.Temperatures[0].Celsius == -40.5
		},
		"Jul 25 09:08:28 jetson tegrastats[12]: RAM 1/2MB GR3D_FREQ 5%": func(s *Stats) bool { return s.RAMUsed.V == 1<<20 && s.GPU.Busy.V == .05 },
	} {
		var s Stats
		if !p.Parse([]byte(line), &s) || !want(&s) {
			t.Errorf("%s\n%s", line, show(&s))
		}
	}
	var s Stats
	for _, line := range []string{"", "\n", "tegrastats: command not found", "RAM", "CPU [", "GR3D_FREQ", "VDD_IN /"} {
		if p.Parse([]byte(line), &s) {
			t.Errorf("%q was understood as\n%s", line, show(&s))
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	names, lines := samples(t)
	var p Parser
	var s Stats
	all := func() {
		for _, n := range names {
			p.Parse(lines[n], &s)
		}
	}
	all()
	if n := testing.AllocsPerRun(20, all); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	names, lines := samples(f)
	for _, n := range names {
		f.Add(lines[n])
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var p Parser
		var s Stats
		p.Parse(line, &s)
		for _, c := range s.Temperatures {
			if c.Celsius <= powerOffTemperature || math.IsNaN(c.Celsius) {
				t.Fatalf("temperature %v of %q", c, line)
			}
		}
		for _, r := range s.Rails {
			if math.IsNaN(r.Watts) || math.IsInf(r.Watts, 0) || r.Name == "" || r.Name == "NC" {
				t.Fatalf("rail %v of %q", r, line)
			}
		}
		for _, e := range append(s.Engines, s.GPU, s.Memory) {
			if e.Busy.OK && !(e.Busy.V >= 0 && e.Busy.V <= 1) {
				t.Fatalf("engine %v of %q", e, line)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	_, lines := samples(b)
	var p Parser
	var s Stats
	b.ReportAllocs()
	for b.Loop() {
		p.Parse(lines["agx-orin-jp6-a"], &s)
	}
}
