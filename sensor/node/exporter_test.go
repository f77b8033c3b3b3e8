package node

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// exporter starts the real node_exporter with the collectors that match ours.
func exporter(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("prometheus-node-exporter")
	if err != nil {
		t.Skip("prometheus-node-exporter is not installed: nothing to compare with")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	address := l.Addr().String()
	_ = l.Close()
	args := []string{"--web.listen-address=" + address, "--collector.disable-defaults", "--web.disable-exporter-metrics",
		// Debian's package has other defaults for these two.
		"--collector.netdev.device-exclude=^$", "--collector.filesystem.mount-points-exclude=" + ignoredMounts().String()}
	for _, c := range []string{"cpu", "meminfo", "loadavg", "pressure", "stat", "vmstat", "diskstats", "filesystem", "netdev", "sockstat", "netstat", "conntrack", "netclass", "filefd", "uname", "os", "time"} {
		args = append(args, "--collector."+c)
	}
	cmd := exec.Command(path, args...)
	if err := cmd.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return "http://" + address + "/metrics"
}

// scrape returns the series and the types of an exposition.
func scrape(url string) (values map[string]float64, types map[string]string, err error) {
	r, err := http.Get(url)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: %s", url, r.Status)
	}
	values, types = make(map[string]float64), make(map[string]string)
	lines := bufio.NewScanner(io.LimitReader(r.Body, 16<<20))
	for lines.Scan() {
		l := lines.Text()
		if rest, ok := strings.CutPrefix(l, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			types[name] = kind
			continue
		}
		i := strings.LastIndexByte(l, ' ')
		if i < 0 || l[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(l[i+1:], 64)
		if err != nil {
			return nil, nil, err
		}
		values[l[:i]] = v
	}
	return values, types, lines.Err()
}

// ours reads all our sensors.
func ours(t *testing.T, sensors []sensor.Sensor) map[string]metric.Sample {
	t.Helper()
	var b metric.Batch
	for _, s := range sensors {
		if err := s.Read(&b); err != nil {
			t.Fatal(err)
		}
	}
	out := make(map[string]metric.Sample)
	for _, m := range b.Samples {
		out[exposed(m.Series)] = m
	}
	return out
}

// TestLikeNodeExporter compares every family that we have with the real node_exporter: the same
// series, the same types, and values between our readings before and after its scrape. A value
// that changes in between gets several attempts.
func TestLikeNodeExporter(t *testing.T) {
	url := exporter(t)
	sensors := []sensor.Sensor{NewClock()}
	for _, open := range constructors {
		s, err := open("/")
		if err != nil {
			t.Logf("left out: %v", err)
			continue
		}
		defer s.Close()
		sensors = append(sensors, s)
	}
	var values map[string]float64
	var types map[string]string
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); { // until it listens
		if values, types, err = scrape(url); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	wrong := make(map[string]string)
	for name := range ours(t, sensors) {
		wrong[name] = "never compared"
	}
	for round := 0; round < 40 && len(wrong) > 0; round++ {
		before := ours(t, sensors)
		if values, types, err = scrape(url); err != nil {
			t.Fatal(err)
		}
		after := ours(t, sensors)
		for name := range wrong {
			x, there := values[name]
			a, b := before[name].Value, after[name].Value
			switch {
			case !there && newer(name):
				delete(wrong, name)
			case !there:
				wrong[name] = "node_exporter has no such series"
			case between(x, a-ownFiles(name), b+ownFiles(name)):
				delete(wrong, name)
			default:
				wrong[name] = fmt.Sprintf("node_exporter says %v, we %v before and %v after", x, a, b)
			}
		}
	}
	for name, why := range wrong {
		t.Errorf("%s: %s", name, why)
	}
	sameFamilies(t, ours(t, sensors), values, types)
}

// newer reports whether the installed node_exporter may be too old for the series.
func newer(name string) bool {
	return strings.HasPrefix(name, "node_pressure_irq_") || strings.HasPrefix(name, "node_netstat_TcpExt_TCPOFOQueue") || strings.HasPrefix(name, "node_netstat_TcpExt_TCPRcvQDrop")
}

// virtual reports whether the series belongs to a network device without hardware; we leave out their properties.
func virtual(series string) bool {
	for _, p := range []string{"up", "carrier", "mtu_bytes", "speed_bytes"} {
		if rest, ok := strings.CutPrefix(series, "node_network_"+p+`{device="`); ok {
			_, err := os.Stat("/sys/class/net/" + strings.TrimSuffix(rest, `"}`) + "/device")
			return err != nil
		}
	}
	return false
}

// ownFiles is the number of files that the exporter itself may have open only while it is
// scraped: the connection, and the files that it reads.
func ownFiles(name string) float64 {
	if name == "node_filefd_allocated" {
		return 64
	}
	return 0
}

func between(x, a, b float64) bool {
	low, high := min(a, b), max(a, b)
	slack := 1e-9 * math.Abs(high)
	return x >= low-slack && x <= high+slack
}

// sameFamilies tests the types, and that no series of a family that we have is missing.
func sameFamilies(t *testing.T, own map[string]metric.Sample, values map[string]float64, types map[string]string) {
	t.Helper()
	family := func(series string) string { name, _, _ := strings.Cut(series, "{"); return name }
	have := make(map[string]bool)
	for _, m := range own {
		name := m.Series.Desc.Name
		have[name] = true
		theirs := types[name]
		if theirs != m.Series.Desc.Kind.String() && theirs != "untyped" && !newer(name) {
			t.Errorf("%s is a %s, node_exporter says %s", name, m.Series.Desc.Kind, theirs)
		}
	}
	for series := range values {
		if _, ok := own[series]; !ok && have[family(series)] && !virtual(series) {
			t.Errorf("%s: node_exporter has it, we do not", series)
		}
	}
}
