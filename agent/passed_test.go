package agent

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestExportsAreDatedByTheirPass: exported values are of the time at which the task table was read, however long the rest
// took. What cannot be, a pass of another boot or a recording, is dated now.
func TestExportsAreDatedByTheirPass(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		late, want time.Duration
		replay     string
	}{
		"at once":         {0, 0, ""},
		"two seconds":     {2 * time.Second, 2 * time.Second, ""},
		"below a minute":  {58 * time.Second, 58 * time.Second, ""},
		"above a minute":  {62 * time.Second, 0, ""},
		"before the boot": {-time.Hour, 0, ""},
		"a recording":     {2 * time.Second, 0, "machine.rec"},
	} {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			t.Fatal(err)
		}
		a := &Agent{now: func() time.Time { return now }, config: Config{Replay: tt.replay}}
		a.pass.Boot = uint64(ts.Nano() - tt.late.Nanoseconds())
		if got := now.Sub(a.passTime()); got < tt.want || got > tt.want+time.Second {
			t.Errorf("%s: dated %v ago, want %v", name, got, tt.want)
		}
	}
}
