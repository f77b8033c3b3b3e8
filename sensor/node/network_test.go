package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// TestNetworkGate: bytes that a link can not have carried are absent, with the other figures beside them. A link that became faster, and one
// that states no speed, lose nothing.
func TestNetworkGate(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	counted := func(received, sent uint64) {
		line := "%s: %d 10 0 0 0 0 0 0 %d 20 0 0 0 0 0 0\n"
		write("proc/1/net/dev", "a\nb\n"+fmt.Sprintf(line, "eth0", received, sent)+fmt.Sprintf(line, "tun0", received, sent))
	}
	for name, odd := range map[string]uint64{"blank": 1<<64 - 1, "spike": 10e9, "fall": 5} {
		write("sys/class/net/eth0/speed", "1000\n") // 125 MB/s
		write("sys/class/net/tun0/speed", "-1\n")
		counted(1000, 1000)
		n, err := NewNetwork(root)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1790000000, 0)
		n.now = func() time.Time { return now }
		read := func() (map[string]float64, error) {
			now = now.Add(15 * time.Second)
			var b metric.Batch
			err := n.Read(&b)
			got := map[string]float64{}
			for _, s := range b.Samples {
				got[s.Series.Desc.Name+" "+s.Series.Values[0]] = s.Value
			}
			return got, err
		}
		const received, sent = "node_network_receive_bytes_total ", "node_network_transmit_bytes_total "
		if got, err := read(); err != nil || got[received+"eth0"] != 1000 {
			t.Fatal(got, err)
		}
		counted(odd, 2000)
		got, err := read()
		if refused, alone := sensor.Implausible(err); refused != 1 || !alone || !strings.Contains(err.Error(), "bytes received of eth0") {
			t.Errorf("%s: %v", name, err)
		}
		if _, there := got[received+"eth0"]; there || got[sent+"eth0"] != 2000 || got["node_network_receive_packets_total eth0"] != 10 || got[received+"tun0"] != float64(odd) {
			t.Errorf("%s: %v", name, got)
		}
		counted(3000, 3000)
		if got, err := read(); err != nil || got[received+"eth0"] != 3000 {
			t.Errorf("%s, afterwards: %v, %v", name, got, err)
		}
		write("sys/class/net/eth0/speed", "100000\n")
		counted(100e9, 3000)
		if got, err := read(); err != nil || got[received+"eth0"] != 100e9 {
			t.Errorf("%s, a faster link: %v, %v", name, got, err)
		}
		_ = n.Close()
	}
}
