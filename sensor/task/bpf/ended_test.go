package bpf

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// TestEndedAreFreed: accounts are freed at the reading after the one that reported their end, also where some of them are not there.
func TestEndedAreFreed(t *testing.T) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 100})
	if err != nil {
		t.Skip(err)
	}
	defer m.Close()
	for k := range uint32(20) {
		if err := m.Put(k, k); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (keys []uint32) {
		var k, v uint32
		for all := m.Iterate(); all.Next(&k, &v); {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return keys
	}
	var e Ended
	for i, c := range []struct{ ended, left []uint32 }{
		{[]uint32{3, 1, 50, 40, 2, 19}, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
		{[]uint32{3, 1, 2, 19, 5}, []uint32{0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}},
		{[]uint32{5}, []uint32{0, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}},
		{[]uint32{60, 70}, []uint32{0, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}},
		{nil, []uint32{0, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}},
	} {
		e.Begin()
		for _, k := range c.ended {
			e.Add(k)
		}
		e.Free(m)
		if got := left(); !slices.Equal(got, c.left) {
			t.Errorf("after reading %d %v are left, want %v", i, got, c.left)
		}
	}
}
