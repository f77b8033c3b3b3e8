package netns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is of a pod of Kubernetes 1.34.4 (test/e2e/beds/k8s), with a second device added.
const recorded = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     840      10    0    0    0     0          0         0      840      10    0    0    0     0       0          0
  eth0:    1226      15    0    2    0     0          0         0      586       7    0    1    0     0       0          0
  net1:18446744073709551614 1 0 0 0 0 0 0 4 1 0 0 0 0 0 0
`

func TestParse(t *testing.T) {
	head := strings.Join(strings.SplitAfter(recorded, "\n")[:2], "")
	for what, tt := range map[string]struct {
		text string
		want Counters
		ok   bool
	}{
		"a pod":           {strings.Replace(recorded, "18446744073709551614", "774", 1), Counters{2000, 590, 16, 8, 2, 1}, true},
		"loopback alone":  {head + "lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", Counters{}, true},
		"no devices":      {head, Counters{}, false},
		"nothing":         {"", Counters{}, false},
		"a number less":   {head + "eth0: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0\n", Counters{}, false},
		"a number more":   {head + "eth0: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0 0\n", Counters{}, false},
		"no number":       {head + "eth0: 1 x 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", Counters{}, false},
		"no device":       {head + "1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", Counters{}, false},
		"a negative one":  {head + "eth0: -1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", Counters{}, false},
		"no space behind": {head + "eth0:7 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", Counters{7, 1, 1, 1, 0, 0}, true},
	} {
		if got, ok := parse([]byte(tt.text)); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %v", what, got, ok)
		}
	}
}

func TestRead(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "proc/7/net/dev")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	text := recorded[:strings.LastIndex(recorded, "  net1")]
	for i := range 300 { // more than the buffer holds at first
		text += strings.Replace("  dev#:    1       1    0    0    0     0          0         0      1       1    0    0    0     0       0          0\n", "#", string(rune('a'+i%26)), 1)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r := New(root)
	if c, err := r.Read(7); err != nil || c != (Counters{1526, 886, 315, 307, 2, 1}) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := r.Read(8); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := New("").Read(int32(os.Getpid())); err != nil {
		t.Errorf("this process: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(recorded))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, ok := parse(text); !ok && c != (Counters{}) {
			t.Errorf("%+v", c)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	r := New("")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Read(int32(os.Getpid())); err != nil {
			b.Fatal(err)
		}
	}
}
