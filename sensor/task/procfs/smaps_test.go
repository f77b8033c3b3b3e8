package procfs

import (
	"os"
	"testing"

	"reckon/sensor"
)

func TestSmapsRollup(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want sensor.SharedMemory
		ok   bool
	}{
		// cat of Debian 12 on kernel 6.18, of itself.
		"since 5.4": {"557d3eb8a000-7ffc34bf7000 ---p 00000000 00:00 0                          [rollup]\nRss:                1752 kB\nPss:                 237 kB\nPss_Dirty:           112 kB\nPss_Anon:            112 kB\nPss_File:            125 kB\nPss_Shmem:             0 kB\nShared_Clean:       1600 kB\nAnonymous:            112 kB\nSwapPss:               0 kB\n",
			sensor.SharedMemory{Resident: 1752 << 10, Proportional: 237 << 10, Anon: 112 << 10, AnonProportional: 112 << 10, HasAnon: true}, true},
		"4.14":        {"00400000-ffffffffff601000 ---p 00000000 00:00 0 [rollup]\nRss:                 884 kB\nPss:                 385 kB\n", sensor.SharedMemory{Resident: 884 << 10, Proportional: 385 << 10}, true},
		"no sum":      {"Rss: 884 kB\n", sensor.SharedMemory{Resident: 884 << 10}, false},
		"a zombie":    {"", sensor.SharedMemory{}, false},
		"no number":   {"Rss: x kB\nPss: 1 kB\n", sensor.SharedMemory{Proportional: 1 << 10}, false},
		"half a line": {"Rss: 8 kB\nPss: 4 kB\nPss_Anon: 4 kB\nPss_", sensor.SharedMemory{Resident: 8 << 10, Proportional: 4 << 10, AnonProportional: 4 << 10}, true},
	} {
		if got, ok := parseSmapsRollup([]byte(tt.text)); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzSmapsRollup(f *testing.F) {
	f.Add([]byte("Rss: 1752 kB\nPss: 237 kB\nPss_Anon: 112 kB\nAnonymous: 112 kB\n"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parseSmapsRollup(text) })
}

func TestSharedMemoryOfOurselves(t *testing.T) {
	m, err := Proc{}.SharedMemory(int32(os.Getpid()))
	if err != nil {
		t.Skip("not available here: ", err)
	}
	if m.Resident < 1<<20 || m.Proportional > m.Resident || m.Proportional == 0 {
		t.Errorf("%+v", m)
	}
}
