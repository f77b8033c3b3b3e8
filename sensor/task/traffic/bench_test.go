package traffic

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"reckon/sensor"
)

func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCost moves payload with and without us, in turns, and reports the CPU time of a call
// and of a GiB: medians of the pairs, as others work on the machine too.
func BenchmarkCost(b *testing.B) {
	for name, step := range map[string]func(testing.TB) (run func(), calls, bytes float64){
		"udp-64B":    datagrams,
		"tcp-128KiB": func(t testing.TB) (func(), float64, float64) { return stream(t, 128<<10, 400) },
		"tcp-1KiB":   func(t testing.TB) (func(), float64, float64) { return stream(t, 1<<10, 10000) },
	} {
		b.Run(name, func(b *testing.B) {
			run, calls, bytes := step(b)
			var more, without []float64
			turn := func() float64 {
				run() // what loading and unloading left in the caches
				at := used()
				run()
				return float64(used() - at)
			}
			var p sensor.TallyPass
			for b.Loop() {
				s := open(b, Options{})
				read(b, s, &p)
				with := turn()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				alone := turn()
				more, without = append(more, with-alone), append(without, alone)
			}
			slices.Sort(more)
			slices.Sort(without)
			middle := len(more) / 2
			b.ReportMetric(more[middle]/calls, "more-ns/call")
			b.ReportMetric(100*more[middle]/without[middle], "more-%")
			b.ReportMetric(without[middle]/1e9/bytes*(1<<30), "cpu-s/GiB")
		})
	}
}

func datagrams(t testing.TB) (run func(), calls, bytes float64) {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	out, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	buf := make([]byte, 64)
	return func() {
		for range 20000 {
			if _, err := out.Write(buf); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
	}, 40000, 20000 * 64
}

func stream(t testing.TB, piece, n int) (run func(), calls, bytes float64) {
	out, in := pair(t, "127.0.0.1:0")
	w, r := make([]byte, piece), make([]byte, piece)
	return func() {
		done := make(chan error, 1)
		go func() {
			for range n {
				if _, err := io.ReadFull(in, r); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for range n {
			if _, err := out.Write(w); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}, float64(2 * n), float64(n * piece)
}

// BenchmarkPrograms reports the time that the kernel measures in the programs themselves.
func BenchmarkPrograms(b *testing.B) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Skip(err)
	}
	defer stats.Close()
	s := open(b, Options{})
	var p sensor.TallyPass
	read(b, s, &p)
	run, _, _ := datagrams(b)
	for b.Loop() {
		run()
	}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			return
		}
		id = next
		prog, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		info, err := prog.Info()
		st, err2 := prog.Stats()
		if err == nil && err2 == nil && st.RunCount > 1000 {
			b.ReportMetric(float64(st.Runtime)/float64(st.RunCount), "ns/"+info.Name)
		}
		_ = prog.Close()
	}
}
