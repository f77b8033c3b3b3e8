package traffic

import (
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// BenchmarkTransfers sends 1 B to 1 GB by TCP and UDP over IPv4 and IPv6 and by sendfile(2), 40 sizes each, every one from a process
// of its own that ends before the reading, and reports the largest difference from what was sent.
func BenchmarkTransfers(b *testing.B) {
	file, err := os.Create(b.TempDir() + "/file")
	if err != nil {
		b.Fatal(err)
	}
	if err := file.Truncate(1 << 30); err != nil { // a hole: it takes no space
		b.Fatal(err)
	}
	for b.Loop() {
		s := open(b, Options{})
		var p sensor.TallyPass
		worst, total, n := 0.0, 0.0, 0
		for _, protocol := range []string{"tcp4", "tcp6", "udp4", "udp6", "sendfile"} {
			address := drain(b, protocol)
			for i := range 40 {
				size := int64(math.Round(math.Pow(1e9, float64(i)/39)))
				p.Reset()
				read(b, s, &p)
				p.Reset()
				c := exec.Command("/proc/self/exe", "send", protocol, address, strconv.FormatInt(size, 10))
				c.Env = append(os.Environ(), "SEND_FILE="+file.Name())
				if out, err := c.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				read(b, s, &p)
				got := uint64(0)
				for k := range p.Rows {
					if r := &p.Rows[k]; r.PID == int32(c.Process.Pid) && int(r.Series) < firstMessageSeries && sensor.Direction(r.Series)%2 == sensor.Transmit {
						got += r.Amount
					}
				}
				worst = max(worst, math.Abs(float64(got)-float64(size))/float64(size))
				total, n = total+float64(size), n+1
			}
		}
		b.ReportMetric(float64(n), "transfers")
		b.ReportMetric(100*worst, "worst-%")
		b.ReportMetric(total/1e9, "GB")
	}
}

// drain takes what comes by a protocol, and returns where.
func drain(b *testing.B, protocol string) string {
	host := map[string]string{"tcp6": "[::1]:0", "udp6": "[::1]:0"}[protocol]
	if host == "" {
		host = "127.0.0.1:0"
	}
	if protocol[:3] == "udp" {
		c, err := net.ListenPacket("udp", host)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		return c.LocalAddr().String() // what overflows its buffer was sent all the same
	}
	l, err := net.Listen("tcp", host)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// BenchmarkPackets sends datagrams of 64 bytes through a veth between two network namespaces, and reports the time of all our
// programs for each packet by the kernel's own count, and what that is of a core at 100,000 packets a second.
func BenchmarkPackets(b *testing.B) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Skip(err)
	}
	defer stats.Close()
	others := runTimes(b)
	s := open(b, Options{})
	var p sensor.TallyPass
	read(b, s, &p)
	for b.Loop() {
		packets, took := 0, time.Duration(0)
		before := runTimes(b)
		apart(b, func() { packets, took = flood(b) }, "link set lo up", "link add v0 type veth peer name v1", "addr add 192.0.2.1/24 dev v0", "link set v0 up", "link set v1 up",
			"neigh add 192.0.2.2 lladdr 02:00:00:00:00:01 dev v0")
		var nanos float64
		for id, v := range runTimes(b) {
			if _, ok := others[id]; !ok {
				nanos += v - before[id]
			}
		}
		b.ReportMetric(nanos/float64(packets), "program-ns/packet")
		b.ReportMetric(100*nanos/float64(packets)*100000/1e9, "%-of-a-core-at-100000/s")
		b.ReportMetric(float64(packets)/took.Seconds(), "packets/s")
	}
}

// flood sends a million datagrams at most, for two seconds at most.
func flood(b testing.TB) (packets int, took time.Duration) {
	c, err := net.Dial("udp", "192.0.2.2:9")
	if err != nil {
		b.Error(err)
		return 1, time.Second
	}
	defer c.Close()
	buf, began := make([]byte, 64), time.Now()
	for packets = 0; packets < 1e6 && time.Since(began) < 2*time.Second; packets++ {
		if _, err := c.Write(buf); err != nil {
			b.Error(err)
			break
		}
	}
	return packets, time.Since(began)
}

// runTimes are the nanoseconds that programs with the names of ours took, by id.
func runTimes(b testing.TB) map[ebpf.ProgramID]float64 {
	times := map[ebpf.ProgramID]float64{}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			return times
		}
		id = next
		prog, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		info, err := prog.Info()
		st, err2 := prog.Stats()
		if err == nil && err2 == nil && (info.Name == "sent" || info.Name == "received" || info.Name == "state") {
			times[id] = float64(st.Runtime)
		}
		_ = prog.Close()
	}
}

// sendFile is a process that sends a part of a file by sendfile(2).
func sendFile(address string, n int64) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.Open(os.Getenv("SEND_FILE"))
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := io.Copy(c, io.LimitReader(f, n)) // *net.TCPConn uses sendfile
	if err == nil && m != n {
		err = fmt.Errorf("sent %d of %d", m, n)
	}
	return err
}
