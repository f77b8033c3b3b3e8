// Package stress runs load programs: a program is a sequence of steps, and a step is an
// amount of each resource for a time. It reports the target and the achieved value of
// each step, by the kernel's own figures.
//
// Units are SI base units: cores (CPU seconds per second), bytes, bytes per second and
// busy GPUs. A step of a program lasts a fraction of a second or longer, and every
// program ends: [Run] returns when its time is over, when its context ends, or, if the
// kernel does not release a thread of it (storage that hangs), a few seconds later.
//
// The target is for the whole process: the CPU time of the runtime, of writing files and
// of sending bytes counts as well, and so does the memory of the program itself. CPU is
// loaded by dedicated threads, each with a short burst in every period. The length of a
// burst is determined from the clock of the thread (clock_gettime(2),
// CLOCK_THREAD_CPUTIME_ID) and from the amount due by the end of the period since the
// start, minus the use by the rest of the process (CLOCK_PROCESS_CPUTIME_ID), so that
// errors do not add up. A deficit is caught up, at a limited speed and up to a limited
// amount. Memory is read back from /proc/self/smaps_rollup (proc(5)); bytes are counted
// where they are written, read and received.
//
// A GPU is kept busy by a small kernel that is started every 20 ms through the driver API
// of CUDA (no toolkit is needed). The busy time of the device is taken from its own
// events and determines the length of the next kernel. It needs a build with -tags nvml.
//
// Errors name the resource and the remedy. A load that this machine cannot generate at
// all (no space, no such folder, a GPU) is refused before anything starts
// ([ErrUnavailable]); one that it can generate in part is run, and the report warns.
//
// [Run] may be called from any goroutine, but measures the process: one at a time. It
// sets runtime.GOMAXPROCS while it runs. All else is plain data.
package stress
