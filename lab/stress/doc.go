// Package stress plays programs of load: any program is a row of steps, and a step
// is how much of each resource to use and for how long. It says per step what was
// wished and what was achieved, by the kernel's own figures.
//
// Units are SI base units: cores (CPU seconds each second), bytes, bytes each second
// and busy GPUs. A step of a program lasts a fraction of a second or longer, and every
// program ends: [Run] returns when its time is over, when its context ends, or, when
// the kernel does not let go of a thread of it (storage that hangs), a few seconds later.
//
// The wish is for the whole process: the CPU time of the runtime, of writing files
// and of sending bytes counts as well, and so does the memory of the program itself.
// CPU is burnt by threads of their own, each a short burst in every period. The length
// of a burst is taken from the clock of the thread (clock_gettime(2),
// CLOCK_THREAD_CPUTIME_ID) and from what is due by the end of the period since the
// start, less what the rest of the process used (CLOCK_PROCESS_CPUTIME_ID), so that
// errors do not add up. What is missed is caught up, at a bounded speed and up to a
// bounded amount. Memory is read back from /proc/self/smaps_rollup (proc(5)); bytes
// are counted where they are written, read and received.
//
// A GPU is kept busy by a small kernel that is started every 20 ms through the driver
// API of CUDA (no toolkit is needed). How long the device was busy is taken from its own
// events and decides the length of the next kernel. It needs a build with -tags nvml.
//
// Errors name the resource and what to do. A load that this machine can not make at
// all (no space, no such folder, a GPU) is refused before anything starts
// ([ErrUnavailable]); one that it makes in part is played, and the report warns.
//
// [Run] may be called from any goroutine, but measures the process: one at a time. It
// sets runtime.GOMAXPROCS for as long as it runs. All else is plain data.
package stress
