package agent

import (
	"log/slog"
	"slices"
	"testing"

	"reckon/account"
	"reckon/sensor"
	"reckon/sensor/task/traffic"
)

// endings is a source of processes that reports ends by the given way.
type endings struct {
	taskSource
	exits string
}

func (e endings) Exits() string { return e.exits }

// readings counts how often traffic is read.
type readings struct {
	sensor.Tally
	n int
}

func (r *readings) Spec() *sensor.TallySpec { return traffic.Spec }

func (r *readings) Read(*sensor.TallyPass) error { r.n++; return nil }

// TestCountsArePutOff: what programs in the kernel count is read every few ticks, unless many processes end, and before each export.
func TestCountsArePutOff(t *testing.T) {
	for name, c := range map[string]struct {
		exits  string
		ended  []int // processes that end in each tick
		export int   // the tick after which an export is made
		always bool
		want   []int // readings by the end of each tick
	}{
		"nothing ends":                         {"ebpf", []int{0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, false, []int{0, 0, 0, 1, 1, 1, 1, 2, 2}},
		"few end":                              {"ebpf", []int{0, maxEndedUncounted - 1, 0, 0, 0}, 0, false, []int{0, 0, 0, 1, 1}},
		"many end in a tick":                   {"ebpf", []int{0, maxEndedUncounted, 0, 0, 0, 0, 0}, 0, false, []int{0, 1, 2, 2, 2, 2, 3}},
		"many end in several ticks":            {"ebpf", []int{maxEndedUncounted / 2, maxEndedUncounted / 2, 0, 0}, 0, false, []int{0, 1, 2, 2}},
		"an export":                            {"ebpf", []int{0, 0, 0, 0, 0, 0}, 2, false, []int{0, 1, 1, 1, 1, 2}},
		"an export in the tick of a reading":   {"ebpf", []int{0, 0, 0, 0, 0}, 4, false, []int{0, 0, 0, 1, 1}},
		"it is not known how many end":         {"", []int{0, 0, 0}, 0, false, []int{1, 2, 3}},
		"a simulated machine, read every tick": {"ebpf", []int{0, 0, 0}, 0, true, []int{1, 2, 3}},
	} {
		reader := new(readings)
		a := &Agent{tasks: endings{exits: c.exits}, ledger: account.New(account.Config{Node: "n"}), log: slog.New(slog.DiscardHandler)}
		a.kernel.always = c.always
		a.addTally(reader)
		var got []int
		for i, n := range c.ended {
			a.pass.Exited = make([]sensor.Process, n)
			a.tickCounts()
			if i+1 == c.export {
				a.readCounts() // as an export does
				a.readCounts() // and a live view in the same tick
			}
			got = append(got, reader.n)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: read %v times by the end of each tick, want %v", name, got, c.want)
		}
	}
}
