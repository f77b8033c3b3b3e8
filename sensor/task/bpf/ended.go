package bpf

import (
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
)

// Ended are the accounts of processes that have ended. An account is freed after the reading that follows the one in which
// the end was reported, because more may have been added in between. It is used from one goroutine.
type Ended struct {
	now    []uint32 // keys reported in this reading
	before []uint32 // and in the one before
}

// Begin starts a reading.
func (e *Ended) Begin() { e.now = e.now[:0] }

// Add notes that the process of an account has ended. An account is reported again until it is freed.
func (e *Ended) Add(key uint32) { e.now = append(e.now, key) }

// Free ends a reading: it frees the accounts that were reported in the reading before.
func (e *Ended) Free(accounts *ebpf.Map) {
	slices.Sort(e.before)
	for i := range e.before {
		_ = accounts.Delete(unsafe.Pointer(&e.before[i])) // by address, which allocates nothing
	}
	e.now = slices.DeleteFunc(e.now, func(key uint32) bool {
		_, gone := slices.BinarySearch(e.before, key)
		return gone
	})
	e.before, e.now = e.now, e.before[:0]
}
