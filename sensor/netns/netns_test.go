package netns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
		want []Device
		ok   bool
	}{
		"a pod":           {strings.Replace(recorded, "18446744073709551614", "774", 1), []Device{{"eth0", Counters{1226, 15, 0, 2}, Counters{586, 7, 0, 1}}, {"net1", Counters{774, 1, 0, 0}, Counters{4, 1, 0, 0}}}, true},
		"loopback alone":  {head + "lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", nil, true},
		"no devices":      {head, nil, false},
		"nothing":         {"", nil, false},
		"a number less":   {head + "eth0: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0\n", nil, false},
		"a number more":   {head + "eth0: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0 0\n", nil, false},
		"no number":       {head + "eth0: 1 x 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", nil, false},
		"no device":       {head + "1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", nil, false},
		"a negative one":  {head + "eth0: -1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", nil, false},
		"no space behind": {head + "eth0:7 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", []Device{{"eth0", Counters{7, 1, 0, 0}, Counters{1, 1, 0, 0}}}, true},
	} {
		r := New("")
		if ok := r.parseDevices([]byte(tt.text)); ok != tt.ok || ok && !slices.Equal(r.list, tt.want) {
			t.Errorf("%s: %+v, %v", what, r.list, ok)
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
	list, err := r.Read(7)
	if err != nil || len(list) != maxDevices || list[0] != (Device{"eth0", Counters{1226, 15, 0, 2}, Counters{586, 7, 0, 1}}) || list[1].Name != "deva" || list[maxDevices-1].Name != Others {
		t.Errorf("%+v, %v", list, err)
	}
	var bytes, packets uint64
	for _, d := range list {
		bytes, packets = bytes+d.Receive.Bytes+d.Transmit.Bytes, packets+d.Receive.Packets+d.Transmit.Packets
	}
	if bytes != 1526+886 || packets != 315+307 {
		t.Errorf("%d bytes and %d packets in all", bytes, packets)
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
		r := New("")
		if r.parseDevices(text); len(r.list) > maxDevices {
			t.Errorf("%+v", r.list)
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
