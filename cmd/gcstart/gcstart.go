// Package gcstart lets the heap of a starting program grow to 16 MiB before its first garbage collection. After it the runtime's
// usual rule holds. The libraries of reckon allocate 7 MB at their start, for which the runtime would collect twice: a fifth of the
// CPU time of a short command. A percentage that GOGC or the program itself sets is left alone.
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
	if replace(usual, first) {
		runtime.AddCleanup(new([16]byte), func(int) { replace(first, usual) }, 0) // runs after the first collection
	}
}

// replace sets the percentage to the second value if it is the first, and reports whether it was.
func replace(from, to int) bool {
	p := debug.SetGCPercent(to)
	if p != from {
		debug.SetGCPercent(p)
	}
	return p == from
}
