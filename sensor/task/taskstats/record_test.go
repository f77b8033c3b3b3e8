package taskstats

import (
	"encoding/binary"
	"os"
	"testing"

	"reckon/sensor"
)

const family = 31

// structure lays out one struct taskstats.
func structure(s threadStats, d, size int) []byte {
	b := make([]byte, size)
	u64 := func(at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }
	u32 := func(at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }
	binary.NativeEndian.PutUint16(b, s.version)
	b[8] = s.flags
	u64(24, s.wait)
	o := 3 * d
	u64(64+o, s.runReal)
	u64(72+o, s.runtime)
	copy(b[80+o:], s.comm[:])
	u32(120+o, s.uid)
	u32(128+o, s.pid)
	u32(132+o, s.ppid)
	u32(136+o, uint32(s.btime))
	u64(144+o, s.elapsed)
	u64(152+o, s.utime)
	u64(160+o, s.stime)
	u64(168+o, s.minflt)
	u64(176+o, s.majflt)
	u64(200+o, s.hiwater)
	u64(248+o, s.readBytes)
	u64(256+o, s.writeBytes)
	u64(272+o, s.nvcsw)
	u64(280+o, s.nivcsw)
	if s.version >= 10 {
		u64(344+5*d, s.btime)
	}
	if s.version >= 12 {
		u32(368+6*d, s.tgid)
		u64(376+6*d, s.groupElapsed)
	}
	return b
}

func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(attrHeader+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

// message makes what the kernel sends when a thread ends, with the sum of all threads if there is one.
func message(one threadStats, all *threadStats) []byte {
	body := []byte{cmdNew, 1, 0, 0}
	body = append(body, attribute(typeAggrPID, append(attribute(1, make([]byte, 4)), attribute(typeStats, structure(one, 0, 560))...))...)
	if all != nil {
		body = append(body, attribute(typeAggrTGID, append(attribute(2, make([]byte, 4)), attribute(typeStats, structure(*all, 0, 560))...))...)
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(nlmsgHeader+len(body)))
	b = binary.NativeEndian.AppendUint16(b, family)
	return append(append(b, make([]byte, 10)...), body...)
}

func newCollector() *processCollector {
	return &processCollector{threads: make(map[uint32]*endedThreadTotals), since: 100e9, now: 101e9, wall: 1_700_000_101e9}
}

func TestParseVersions(t *testing.T) {
	want := threadStats{flags: 0x20, uid: 1000, pid: 71, ppid: 70, btime: 1_700_000_000, elapsed: 5, utime: 4000, stime: 8000,
		runReal: 12e6, runtime: 9e6, wait: 3, minflt: 100, majflt: 2, nvcsw: 7, nivcsw: 8, readBytes: 4096, writeBytes: 8192, hiwater: 1234}
	copy(want.comm[:], "a name of 15 by")
	for _, c := range []struct {
		version uint16
		d, size int
	}{{8, 0, 328}, {9, 0, 344}, {10, 0, 352}, {11, 0, 368}, {12, 0, 400}, {13, 0, 416}, {14, 0, 432}, {15, 8, 496}, {16, 16, 560}, {16, 0, 560}, {17, 0, 700}} {
		w := want
		w.version = c.version
		if c.version >= 12 {
			w.tgid, w.groupElapsed = 70, 6
		}
		b := structure(w, c.d, c.size)
		var got threadStats
		if !got.parse(b, c.d) || got != w {
			t.Errorf("version %d: %+v, want %+v", c.version, got, w)
		}
		for _, d := range recordLayouts() {
			if belongsTo(b, d, w.pid, w.ppid) != (d == c.d) {
				t.Errorf("version %d: layout %d for %d", c.version, d, c.d)
			}
		}
		if got.parse(b[:327], c.d) {
			t.Errorf("version %d: a record that is cut off is taken", c.version)
		}
	}
}

// TestThreads tests how threads become processes.
func TestThreads(t *testing.T) {
	c := newCollector()
	thread := threadStats{version: 14, pid: 71, tgid: 70, ppid: 1, runtime: 30e6, runReal: 32e6, utime: 20000, stime: 12000, minflt: 5, nvcsw: 1, wait: 4, hiwater: 10, readBytes: 1}
	last := threadStats{version: 14, pid: 70, tgid: 70, ppid: 1, flags: flagLastThread, runtime: 10e6, runReal: 8e6, utime: 8000, minflt: 7, nvcsw: 2, wait: 6, hiwater: 20, readBytes: 2, elapsed: 50e3, groupElapsed: 50e3}
	var p sensor.Pass
	c.addRecords(append(message(thread, nil), message(thread, nil)...), family, &p)
	if len(p.Exited) != 0 {
		t.Fatalf("threads of a process that lives are reported: %+v", p.Exited)
	}
	all := threadStats{version: 14, runtime: 70e6, runReal: 72e6, nvcsw: 4, wait: 14}
	c.addRecords(message(last, &all), family, &p)
	if len(p.Exited) != 1 {
		t.Fatalf("%d processes", len(p.Exited))
	}
	q := p.Exited[0]
	if q.PID != 70 || q.UserNanos+q.SystemNanos != 70e6 || q.SystemNanos != 23_333_333 || q.MinorFaults != 17 || q.Voluntary != 4 ||
		q.WaitNanos != 14 || q.PeakBytes != 20<<10 || q.ReadBytes != 4 || q.Life != 50e6 || q.Have&sensor.FieldFaults == 0 {
		t.Errorf("%+v", q)
	}
	if len(c.threads) != 0 {
		t.Error("its threads are still remembered")
	}
	// Of another only the last thread is heard: what the kernel did not sum is unknown.
	p.Reset()
	c.addRecords(message(last, &all), family, &p)
	q = p.Exited[0]
	if q.UserNanos+q.SystemNanos != 70e6 || q.Have&(sensor.FieldFaults|sensor.FieldIO) != 0 || q.MinorFaults != 0 {
		t.Errorf("with missing threads: %+v", q)
	}
}

// TestThreadAfterItsProcess tests that a thread with a record that comes after its process's counts to no later
// process with the same id, and that a thread of a long process is not forgotten.
func TestThreadAfterItsProcess(t *testing.T) {
	const second = 1_000_000_000
	thread := threadStats{version: 14, pid: 71, tgid: 70, ppid: 1, runtime: 30e6, runReal: 30e6, utime: 30000, minflt: 5, elapsed: 50e3}
	last := threadStats{version: 14, pid: 70, tgid: 70, ppid: 1, flags: flagLastThread, runtime: 10e6, runReal: 10e6, utime: 10000, minflt: 7, elapsed: 50e3}
	for _, c := range []struct {
		name   string
		life   uint64 // of the process that ends 10 s after the thread, ns
		faults uint64
	}{{"a later process", 8 * second, 7}, {"its own process", 10 * second, 12}} {
		col := newCollector()
		var p sensor.Pass
		col.addRecords(message(thread, nil), family, &p)
		col.since, col.now = col.now+9*second, col.now+10*second
		last.groupElapsed = c.life / 1000
		col.addRecords(message(last, nil), family, &p)
		if len(p.Exited) != 1 || p.Exited[0].MinorFaults != c.faults || len(col.threads) != 0 {
			t.Errorf("%s: %+v, %d remembered", c.name, p.Exited, len(col.threads))
		}
	}
}

// TestLastSlice tests the time since the last tick of a process of one thread.
func TestLastSlice(t *testing.T) {
	for _, c := range []struct {
		runtime, wait, elapsed, nvcsw, nivcsw, want uint64
	}{
		{0, 100e3, 1500, 0, 0, 1_400_000},     // never slept
		{0, 100e3, 1500, 1, 0, 0},             // slept, who knows how long
		{0, 100e3, 1500, 0, 1, 1_397_000},     // never slept, and was moved to another processor
		{150e6, 9e9, 9_151_600, 0, 40, 150e6}, // interrupted often, over 9 s: 150.2 ms in truth
		{8e6, 0, 9000, 0, 0, 9e6},             // beyond its last tick
		{8e6, 0, 18_000, 0, 0, 18e6},          // by a tick
		{8e6, 0, 18_001, 0, 0, 8e6},           // by more than that: something else
		{8e6, 9e9, 9000, 0, 0, 8e6},           // clocks that disagree
		{8e6, 0, 7000, 0, 0, 8e6},             // the lifetime is rounded down
	} {
		s := threadStats{runtime: c.runtime, wait: c.wait, elapsed: c.elapsed, nvcsw: c.nvcsw, nivcsw: c.nivcsw}
		if got := runTime(&endedThreadTotals{runtime: c.runtime, wait: c.wait}, &s); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestStart tests when a process began: the boot was at 1,700,000,000 s, the end lies between 100 s and 101 s after.
func TestStart(t *testing.T) {
	c := newCollector()
	s := threadStats{btime: 1_700_000_097, elapsed: 3_200_000, groupElapsed: 3_200_000} // ends in second 100
	if got := c.startTime(&s); got < 96_800e6 || got > 97_800e6 {
		t.Errorf("%d", got)
	}
	s.groupElapsed = 50_000_000
	if got := c.startTime(&s); got < 50e9 || got > 51e9 {
		t.Errorf("of a group %d", got)
	}
	s.btime = 5 // the clock was set
	if got := c.startTime(&s); got > 101e9 {
		t.Errorf("after a jump %d", got)
	}
}

func TestBounded(t *testing.T) {
	c := newCollector()
	var p sensor.Pass
	for i := range uint32(3 * maxPartials) {
		c.addRecords(message(threadStats{version: 14, tgid: i + 1}, nil), family, &p)
	}
	if len(c.threads) != maxPartials {
		t.Errorf("%d processes are remembered", len(c.threads))
	}
	c.now += 2 * 3600e9
	if c.dropStale(); len(c.threads) != 0 {
		t.Errorf("%d after two hours", len(c.threads))
	}
}

func TestAllocations(t *testing.T) {
	c := newCollector()
	thread := message(threadStats{version: 14, tgid: 9, runtime: 5}, nil)
	last := message(threadStats{version: 14, tgid: 9, runtime: 5, flags: flagLastThread}, &threadStats{version: 14})
	var p sensor.Pass
	if n := testing.AllocsPerRun(100, func() {
		p.Reset()
		c.addRecords(thread, family, &p)
		c.addRecords(last, family, &p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRecorded parses a message as Linux 6.18 sent it (testdata/SOURCES).
func TestRecorded(t *testing.T) {
	b, err := os.ReadFile("testdata/linux-6.18-true.bin")
	if err != nil {
		t.Fatal(err)
	}
	var p sensor.Pass
	newCollector().addRecords(b, binary.NativeEndian.Uint16(b[4:]), &p)
	if len(p.Exited) != 1 {
		t.Fatalf("%d processes", len(p.Exited))
	}
	q := p.Exited[0]
	if q.Comm.String() != "true" || q.UserNanos+q.SystemNanos == 0 || q.UserNanos+q.SystemNanos > 10e6 || q.MinorFaults == 0 || q.PeakBytes < 100<<10 || q.PPID <= 0 {
		t.Errorf("%+v", q)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(message(threadStats{version: 14, tgid: 9, flags: flagLastThread}, &threadStats{version: 14}), 0)
	f.Add(message(threadStats{version: 14, tgid: 9}, nil), 16)
	if b, err := os.ReadFile("testdata/linux-6.18-true.bin"); err == nil {
		f.Add(b, 0)
	}
	f.Fuzz(func(t *testing.T, b []byte, layout int) {
		c := newCollector()
		c.layout = recordLayouts()[uint(layout)%3]
		var p sensor.Pass
		c.addRecords(b, family, &p)
		c.addRecords(b, family, &p)
		for i := range p.Exited {
			q := &p.Exited[i]
			if q.PID <= 0 || q.Comm[15] != 0 {
				t.Errorf("%+v", q)
			}
			if q.Have&sensor.FieldFaults == 0 && q.MinorFaults != 0 {
				t.Error("a figure that is called unknown is reported")
			}
		}
	})
}

func BenchmarkMessage(b *testing.B) {
	c := newCollector()
	m := message(threadStats{version: 14, tgid: 9, runtime: 5, flags: flagLastThread}, nil)
	var p sensor.Pass
	b.ReportAllocs()
	for b.Loop() {
		p.Reset()
		c.addRecords(m, family, &p)
	}
}
