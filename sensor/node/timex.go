package node

import (
	"bytes"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"reckon/metric"
	"reckon/sensor"
)

// Timex exports the state of clock synchronisation from adjtimex(2). It omits pulse-per-second figures, because hardly
// any machine has a pulse-per-second signal.
type Timex struct {
	descs  []*metric.Desc
	series []*metric.Series
}

// Constants of adjtimex(2).
const (
	timexNano  = 0x2000 // STA_NANO: the offset is in nanoseconds
	timexError = 5      // TIME_ERROR: the clock is not synchronised
	timexPPM   = 65536e6
)

var timexDescs = []*metric.Desc{
	gauge("node_timex_offset_seconds", "Time offset in between local system and reference clock.", metric.Seconds),
	gauge("node_timex_frequency_adjustment_ratio", "Local clock frequency adjustment.", metric.Ratio),
	gauge("node_timex_maxerror_seconds", "Maximum error in seconds.", metric.Seconds),
	gauge("node_timex_estimated_error_seconds", "Estimated error in seconds.", metric.Seconds),
	gauge("node_timex_status", "Value of the status array bits.", metric.None),
	gauge("node_timex_loop_time_constant", "Phase-locked loop time constant.", metric.None),
	gauge("node_timex_tick_seconds", "Seconds between clock ticks.", metric.Seconds),
	gauge("node_timex_tai_offset_seconds", "International Atomic Time (TAI) offset.", metric.Seconds),
	gauge("node_timex_sync_status", "Is clock synchronized to a reliable server (1 = yes, 0 = no).", metric.None),
}

// TimexDescs lists the series of [Timex], which no recorded machine has.
func TimexDescs() []*metric.Desc { return timexDescs }

// NewTimex tests whether adjtimex(2) works. It returns an error if root is a recording of a machine, because that has
// no clock. If root is the host's tree in a container, it works, because the host has the same boot and clock.
func NewTimex(root string) (*Timex, error) {
	if !sameBoot(root) {
		return nil, sensor.Unavailable("the clock of a recorded machine is not there", "", nil)
	}
	if _, err := unix.Adjtimex(&unix.Timex{}); err != nil {
		return nil, sensor.Unavailable("the kernel does not report how the clock is kept",
			"allow adjtimex(2), which some containers forbid", err)
	}
	t := &Timex{descs: timexDescs}
	t.series = newSeries(t.descs)
	return t, nil
}

// sameBoot reports whether a tree belongs to the kernel that we run on.
func sameBoot(root string) bool {
	if root == "" || root == "/" {
		return true
	}
	const file = "proc/sys/kernel/random/boot_id"
	theirs, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return false
	}
	ours, err := os.ReadFile("/" + file)
	return err == nil && bytes.Equal(theirs, ours)
}

// Name returns "timex".
func (t *Timex) Name() string { return "timex" }

// Descs lists the figures.
func (t *Timex) Descs() []*metric.Desc { return t.descs }

// Close does nothing.
func (t *Timex) Close() error { return nil }

// Read appends them.
func (t *Timex) Read(b *metric.Batch) error {
	var x unix.Timex // modes 0: nothing is set
	state, err := unix.Adjtimex(&x)
	if err != nil {
		return err
	}
	part := 1e6
	if x.Status&timexNano != 0 {
		part = 1e9
	}
	sync := 1.0
	if state == timexError {
		sync = 0
	}
	for i, v := range [...]float64{
		float64(x.Offset) / part, 1 + float64(x.Freq)/timexPPM, float64(x.Maxerror) / 1e6, float64(x.Esterror) / 1e6,
		float64(x.Status), float64(x.Constant), float64(x.Tick) / 1e6, float64(x.Tai), sync,
	} {
		b.Add(t.series[i], v)
	}
	return nil
}
