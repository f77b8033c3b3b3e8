package sensor

import (
	"strings"
	"testing"
)

// TestRefuseMemory: memory that the machine does not have is left out of a process, and named; pages that are mapped three times are not.
func TestRefuseMemory(t *testing.T) {
	const gib = 1 << 30
	have := FieldMemory | FieldPeak | FieldIO
	for name, c := range map[string]struct {
		p    Process
		odd  bool
		what string
	}{
		"usual":     {p: Process{Anon: 3 * gib, File: gib, PeakBytes: 5 * gib}},
		"all of it": {p: Process{Anon: 8 * gib}},
		"views":     {p: Process{Anon: gib, Shmem: 3 * 7 * gib, PeakBytes: 23 * gib}},
		"blank":     {p: Process{Anon: 1<<64 - 4096}, odd: true, what: "memory of process 7 (db) is 1.84467e+19, at most 8.58993e+09 is possible"},
		"spike":     {p: Process{Anon: gib, Shmem: 40 * gib}, odd: true, what: "is 4.29497e+10, at most 3.43597e+10"},
		"peak":      {p: Process{Anon: gib, PeakBytes: 1 << 50}, odd: true, what: "possible"},
	} {
		c.p.PID, c.p.Comm, c.p.Have = 7, CommOf([]byte("db")), have
		p := Pass{Live: []Process{{PID: 1, Have: have, Anon: gib}, c.p}, Exited: []Process{c.p}}
		err := p.RefuseMemory(8 * gib)
		n, alone := Implausible(err)
		if want := map[bool]int{true: 2}[c.odd]; n != want || !alone || err != nil && !strings.Contains(err.Error(), c.what) {
			t.Errorf("%s: %v", name, err)
		}
		for _, q := range []Process{p.Live[1], p.Exited[0]} {
			if q.Blank != c.odd || c.odd && (q.Anon+q.Shmem+q.PeakBytes != 0 || q.Have != FieldIO) || !c.odd && q != c.p {
				t.Errorf("%s: %+v", name, q)
			}
		}
		if p.Live[0].Blank || p.Live[0].Anon != gib {
			t.Errorf("%s: another process is %+v", name, p.Live[0])
		}
		if p.RefuseMemory(0) != nil {
			t.Errorf("%s: refused on a machine of unknown size", name)
		}
	}
}
