// Package run runs one command and reports the resources that it and all its descendants used.
//
// It needs no server and no privilege, and uses the best sources of the machine:
//
//   - wait4(2). The calling process makes itself a child subreaper (prctl(2),
//     PR_SET_CHILD_SUBREAPER), so every descendant, one that daemonised too, is waited
//     for by its parent or by us. The rusage of what we reap then holds the CPU time,
//     the context switches, faults and block I/O of all that ended. Only children with a
//     parent that ignores SIGCHLD escape it: the kernel adds them to nobody.
//   - A private control group below the one we are in (never outside it, so that a batch
//     system or systemd still sees and limits the work), wherever making one changes
//     neither scheduling nor limits: a counter of the whole tree, dead or alive.
//   - Inherited perf events (perf_event_open(2), a software event, kernel.perf_event_paranoid
//     2 or less suffices): the kernel reports each fork, program name and exit of the tree
//     and the CPU time of each thread, so that a process of one millisecond is known by name.
//   - Exit records of the task sources (eBPF, taskstats), given in [Options.Exits].
//   - /proc of the live descendants: memory, CPU wait, and the profile over time.
//
// Report.Source names the source of each figure. A figure without a source is absent, never zero. Units: seconds,
// bytes, cores (CPU seconds per second).
//
// [Run] takes over wait4(-1) of the process, so nothing else in the process may have children meanwhile. Only one Run
// may be active at a time. The report is not shared with the goroutines that built it.
//
// Kernel documents: Documentation/filesystems/proc.rst, admin-guide/cgroup-v1/, admin-guide/cgroup-v2.rst,
// scheduler/sched-stats.rst, perf_event_open(2), getrusage(2).
package run
