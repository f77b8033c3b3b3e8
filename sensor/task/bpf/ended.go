package bpf

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
)

// Ended keeps the keys of ended processes until their accounts are freed. An account is freed one reading after its end
// was reported, because amounts may have been added in between. It is not safe for concurrent use.
type Ended struct {
	now    []uint32 // keys reported in this reading
	before []uint32 // keys reported in the previous reading
}

// Begin starts a reading.
func (e *Ended) Begin() { e.now = e.now[:0] }

// Add notes that the process of an account has ended. An account is reported again until it is freed.
func (e *Ended) Add(key uint32) { e.now = append(e.now, key) }

// Free ends a reading: it frees the accounts that were reported in the reading before.
func (e *Ended) Free(accounts *ebpf.Map) {
	slices.Sort(e.before)
	freeAll(accounts, e.before)
	e.now = slices.DeleteFunc(e.now, func(key uint32) bool {
		_, gone := slices.BinarySearch(e.before, key)
		return gone
	})
	e.before, e.now = e.now, e.before[:0]
}

// freeAll deletes the entries with the given keys, in few system calls if the kernel supports it (Linux 5.6).
func freeAll(accounts *ebpf.Map, keys []uint32) {
	for len(keys) > 1 {
		n, err := accounts.BatchDelete(keys, nil)
		switch {
		case err == nil:
			return
		case errors.Is(err, ebpf.ErrKeyNotExist):
			keys = keys[min(n+1, len(keys)):] // it stopped at one that is not there
			continue
		}
		break
	}
	for i := range keys {
		_ = accounts.Delete(unsafe.Pointer(&keys[i])) // by address, which allocates nothing
	}
}
