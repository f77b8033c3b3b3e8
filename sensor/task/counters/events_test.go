package counters

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// cpuinfo is the beginning of /proc/cpuinfo, of several processors.
func cpuinfo(vendor, family, model string) string {
	one := "processor\t: 0\nvendor_id\t: " + vendor + "\ncpu family\t: " + family + "\nmodel\t\t: " + model + "\nmodel name\t: any\n\n"
	return one + one
}

// What is counted, by family: on both sides of the edges of the table.
func TestPlan(t *testing.T) {
	generic := []Counter{Cycles, Instructions, BranchMisses}
	memory := append(slices.Clone(generic), CacheMisses)
	widths := append(slices.Clone(memory), FPScalar, FP128, FP256, FP512)
	for name, c := range map[string]struct {
		info, arch string
		want       []Counter
		misses     uint64 // the event
		fp512      uint64
	}{
		"Sapphire Rapids":       {cpuinfo("GenuineIntel", "6", "143"), "amd64", widths, unix.PERF_COUNT_HW_CACHE_MISSES, 0xc0c7},
		"Broadwell":             {cpuinfo("GenuineIntel", "6", "79"), "amd64", widths, unix.PERF_COUNT_HW_CACHE_MISSES, 0xc0c7},
		"Haswell has no widths": {cpuinfo("GenuineIntel", "6", "63"), "amd64", memory, unix.PERF_COUNT_HW_CACHE_MISSES, 0},
		"Zen 1":                 {cpuinfo("AuthenticAMD", "23", "47"), "amd64", generic, 0, 0},
		"Zen 2":                 {cpuinfo("AuthenticAMD", "23", "48"), "amd64", memory, 0x4843, 0},
		"Zen 3":                 {cpuinfo("AuthenticAMD", "25", "1"), "amd64", memory, 0x4844, 0},
		"Zen 3, last model":     {cpuinfo("AuthenticAMD", "25", "95"), "amd64", memory, 0x4844, 0},
		"Zen 4":                 {cpuinfo("AuthenticAMD", "25", "17"), "amd64", widths, 0x4844, 0x2008},
		"Zen 4, client":         {cpuinfo("AuthenticAMD", "25", "96"), "amd64", widths, 0x4844, 0x2008},
		"Zen 5":                 {cpuinfo("AuthenticAMD", "26", "2"), "amd64", widths, 0x4844, 0x2008},
		"another maker":         {cpuinfo("HygonGenuine", "24", "2"), "amd64", generic, 0, 0},
		"Arm":                   {"processor\t: 0\nCPU implementer\t: 0x41\n", "arm64", memory, 0x37, 0},
		"nothing to read":       {"", "amd64", generic, 0, 0},
	} {
		p := planFor(c.info, c.arch)
		var got []Counter
		for _, e := range p.events {
			got = append(got, e.counter)
			if e.counter == CacheMisses && e.config != c.misses || e.counter == FP512 && e.config != c.fp512 {
				t.Errorf("%s: event %#x of counter %d", name, e.config, e.counter)
			}
		}
		if !slices.Equal(got, c.want) || (p.line != 0) != slices.Contains(got, CacheMisses) || len(got) > maxEvents {
			t.Errorf("%s: counts %v, a miss is %d bytes; want %v", name, got, p.line, c.want)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	f.Add(cpuinfo("GenuineIntel", "6", "143"))
	f.Fuzz(func(t *testing.T, text string) {
		if p := planFor(text, "amd64"); len(p.events) < 3 || len(p.events) > maxEvents {
			t.Fatalf("%d events", len(p.events))
		}
	})
}
