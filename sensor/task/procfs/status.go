package procfs

import "reckon/internal/sysfs"

// status is the used part of /proc/PID/status (Documentation/filesystems/proc.rst, table 1-2).
// Memory is in bytes. Unknown lines are skipped, because each kernel adds some.
//
//	Uid:	1000	1000	1000	1000
//	VmHWM:	    1724 kB
//	RssAnon:	     112 kB
//	HugetlbPages:	       0 kB
//	voluntary_ctxt_switches:	0
type status struct {
	uid                      uint32 // the real one
	haveUID                  bool
	hwm, rss                 uint64
	anon, file, shmem, swap  uint64
	huge                     uint64 // explicit huge pages
	haveHWM, haveRSS         bool
	haveTypes, haveSwap      bool // kernels before 4.5 do not report the types
	voluntary, involuntary   uint64
	haveSwitches, haveMemory bool
}

// parseStatus fills all of s. A line that is malformed counts as absent.
func parseStatus(b []byte, s *status) {
	*s = status{}
	types, switches := 0, 0
	for len(b) > 0 {
		var l []byte
		l, b = sysfs.Line(b)
		if len(l) < 5 {
			continue
		}
		switch l[0] {
		case 'U':
			if v, ok := lineNumber(l, "Uid:"); ok && v <= 1<<32-1 {
				s.uid, s.haveUID = uint32(v), true
			}
		case 'V':
			switch l[2] {
			case 'H':
				s.haveHWM = parseKB(l, "VmHWM:", &s.hwm)
			case 'R':
				s.haveRSS = parseKB(l, "VmRSS:", &s.rss)
			case 'S':
				if l[3] == 'w' {
					s.haveSwap = parseKB(l, "VmSwap:", &s.swap)
				}
			}
		case 'R':
			if parseKB(l, "RssAnon:", &s.anon) || parseKB(l, "RssFile:", &s.file) || parseKB(l, "RssShmem:", &s.shmem) {
				types++
			}
		case 'H':
			parseKB(l, "HugetlbPages:", &s.huge)
		case 'v':
			if v, ok := lineNumber(l, "voluntary_ctxt_switches:"); ok {
				s.voluntary = v
				switches++
			}
		case 'n':
			if v, ok := lineNumber(l, "nonvoluntary_ctxt_switches:"); ok {
				s.involuntary = v
				switches++
			}
		}
	}
	s.haveTypes, s.haveSwitches = types == 3, switches == 2
	s.haveMemory = s.haveRSS || s.haveTypes
}

// lineNumber returns the first number of a line that begins with key.
func lineNumber(l []byte, key string) (number uint64, ok bool) {
	if len(l) < len(key) || string(l[:len(key)]) != key {
		return 0, false
	}
	w, _ := sysfs.Field(l[len(key):])
	return sysfs.Unsigned(w)
}

// parseKB reads a number in kB into bytes.
func parseKB(l []byte, key string, into *uint64) bool {
	v, ok := lineNumber(l, key)
	if !ok || v > (1<<64-1)>>10 {
		return false
	}
	*into = v << 10
	return true
}
