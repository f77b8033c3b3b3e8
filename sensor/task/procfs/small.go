package procfs

import "reckon/internal/sysfs"

// parseStatm parses the text of /proc/PID/statm. It returns the number of resident pages, and how many of these are
// mapped files or shared memory.
func parseStatm(b []byte) (resident, shared uint64, err error) {
	_, b = sysfs.Field(b)
	first, b := sysfs.Field(b)
	second, _ := sysfs.Field(b)
	resident, ok1 := sysfs.Unsigned(first)
	shared, ok2 := sysfs.Unsigned(second)
	if !ok1 || !ok2 {
		return 0, 0, errMalformed
	}
	return resident, min(shared, resident), nil
}

// parseSchedstat parses the text of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst). It returns
// the nanoseconds that the thread ran, the nanoseconds that it waited for a processor, and its number of time slices.
// All are 0 if the kernel does not count them.
func parseSchedstat(b []byte) (run, wait, turns uint64, err error) {
	first, b := sysfs.Field(b)
	second, b := sysfs.Field(b)
	third, _ := sysfs.Field(b)
	run, ok1 := sysfs.Unsigned(first)
	wait, ok2 := sysfs.Unsigned(second)
	turns, ok3 := sysfs.Unsigned(third)
	if !ok1 || !ok2 || !ok3 {
		return 0, 0, 0, errMalformed
	}
	return run, wait, turns, nil
}

// parseIO parses read_bytes, write_bytes and cancelled_write_bytes of /proc/PID/io (Documentation/filesystems/proc.rst,
// 3.3). These are the bytes fetched from storage, sent to storage, and deleted before they were sent.
func parseIO(b []byte) (t ioTotals, err error) {
	found := 0
	for len(b) > 0 {
		var l []byte
		l, b = sysfs.Line(b)
		if v, ok := lineNumber(l, "read_bytes:"); ok {
			t.read = v
			found |= 1
		} else if v, ok := lineNumber(l, "write_bytes:"); ok {
			t.write = v
			found |= 2
		} else if v, ok := lineNumber(l, "cancelled_write_bytes:"); ok {
			t.cancelled = v
		}
	}
	if found != 3 {
		return ioTotals{}, errMalformed
	}
	return t, nil
}

// parseLastPID returns the last field of /proc/loadavg, which is the process id that was assigned last in our pid
// namespace.
//
//	0.53 0.74 0.67 1/234 12345
func parseLastPID(b []byte) (uint64, bool) {
	var w []byte
	for range 5 {
		w, b = sysfs.Field(b)
	}
	return sysfs.Unsigned(w)
}
