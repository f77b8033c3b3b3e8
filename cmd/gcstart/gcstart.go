// Package gcstart lets the heap of a starting program grow to 16 MiB before its first garbage collection. After that the runtime's usual
// rule applies. The libraries of reckon allocate 7 MB when they start. The runtime would collect twice for this, which takes a fifth of
// the CPU time of a short command. A percentage set by GOGC or by the program itself is not changed.
package gcstart

import (
	"runtime"
	"runtime/debug"
)

const (
	usual = 100 // the runtime's default
	first = 400 // 16 MiB, because the runtime's least heap is 4 MiB for each 100
)

func init() { start() }

func start() {
	if replacePercent(usual, first) {
		runtime.AddCleanup(new([16]byte), func(int) { replacePercent(first, usual) }, 0) // runs after the first collection
	}
}

// replacePercent sets the garbage collection percentage to to if it is from, and reports whether it was.
func replacePercent(from, to int) bool {
	p := debug.SetGCPercent(to)
	if p != from {
		debug.SetGCPercent(p)
	}
	return p == from
}
