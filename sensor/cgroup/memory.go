package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// kernelMemory is the kernel memory in memory.stat of version 2.
//
// Since 5.18, "kernel" has all of it except socket buffers: stacks, page tables, per-CPU memory,
// vmalloc, zswap and slab. For older kernels the parts are summed.
type kernelMemory struct {
	all, reclaimable, pieces, sock uint64
	hasAll, hasPieces              bool
}

// unreclaimable returns the memory that reclaim cannot free.
func (k *kernelMemory) unreclaimable() (bytes uint64, ok bool) {
	switch {
	case k.hasAll:
		return k.all - min(k.all, k.reclaimable) + k.sock, true
	case k.hasPieces:
		return k.pieces + k.sock, true
	}
	return 0, false
}

// parseMemoryStat parses memory.stat of version 2. It subtracts shared memory from the kernel's "file", so that anon,
// file and shmem do not overlap. pmd is the size of a transparent huge page in bytes; see [hugePages].
func parseMemoryStat(b []byte, pmd uint64, c *sensor.Cgroup) (ok bool) {
	var got figureParts
	var k kernelMemory
	huge, hugeKnown := uint64(0), pmd == 0
	c.HugeBytes = 0
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		key, n, isNumber := splitPair(l)
		if !isNumber {
			continue
		}
		switch string(key) {
		case "thp_fault_alloc", "thp_collapse_alloc":
			huge, hugeKnown = huge+n, true
		case "anon":
			c.Anon = n
			got.add(1)
		case "file":
			c.File = n
			got.add(2)
		case "shmem":
			c.Shmem = n
			c.Have |= sensor.CgroupShmem
		case "inactive_file":
			parseInactive(n, c)
		case "kernel":
			k.all, k.hasAll = n, true
		case "slab_reclaimable":
			k.reclaimable = n
		case "slab_unreclaimable":
			k.pieces += n
			k.hasPieces = true
		case "kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc":
			k.pieces += n
		case "sock":
			k.sock = n
		default:
			parsePages(key, n, c)
		}
	}
	if n, ok := k.unreclaimable(); ok {
		c.Kernel = n
		c.Have |= sensor.CgroupKernel
	}
	if c.Have&sensor.CgroupFaults != 0 && hugeKnown && (huge == 0 || pmd != math.MaxUint64) {
		c.Filled = multiplySaturating(c.Faults, uint64(os.Getpagesize())) + huge*pmd
		c.Have |= sensor.CgroupFilled
	}
	c.File -= min(c.File, c.Shmem)
	return got == 3
}

// parseLegacyMemoryStat parses memory.stat of version 1. Kernels before 3.14 count shared memory as page cache. A huge
// page counts as one charge, so the number of charges is the number of filled pages only on machines without huge
// pages. pmd is the size of a huge page in bytes; see [hugePages].
func parseLegacyMemoryStat(b []byte, pmd uint64, c *sensor.Cgroup) (ok bool) {
	var got figureParts
	c.HugeBytes = 0
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		key, n, isNumber := splitPair(l)
		if !isNumber {
			continue
		}
		switch string(key) {
		case "total_rss":
			c.Anon = n
			got.add(1)
		case "total_cache":
			c.File = n
			got.add(2)
		case "total_shmem":
			c.Shmem = n
			c.Have |= sensor.CgroupShmem
		case "total_pgpgin":
			if pmd == 0 {
				c.Filled = multiplySaturating(n, uint64(os.Getpagesize()))
				c.Have |= sensor.CgroupFilled
			}
		case "total_inactive_file":
			parseInactive(n, c)
		case "total_swap":
			c.Swap = n
			c.Have |= sensor.CgroupSwap
		default:
			if rest, ok := bytes.CutPrefix(key, []byte("total_")); ok {
				parsePages(rest, n, c)
			}
		}
	}
	c.File -= min(c.File, c.Shmem)
	return got == 3
}

// checkMemory drops memory beyond the machine's, or beyond twice the limit of the group, and returns an error about it.
func (r *Reader) checkMemory(c *sensor.Cgroup, group string) (refused error) {
	figures := [...]struct {
		name string
		v    uint64
		have sensor.CgroupFields
	}{
		{"memory", c.Current, sensor.CgroupMemory}, {"anonymous memory", c.Anon, sensor.CgroupMemory},
		{"page cache", c.File, sensor.CgroupMemory}, {"shared memory", c.Shmem, sensor.CgroupShmem},
		{"kernel memory", c.Kernel, sensor.CgroupKernel}, {"highest memory", c.Peak, sensor.CgroupPeak},
	}
	for _, f := range figures {
		if c.Have&f.have == 0 || f.v <= r.memoryBound(c, false) {
			continue
		}
		if most := r.memoryBound(c, true); f.v > most {
			refused = errors.Join(refused, sensor.CheckRange(f.name, group, float64(f.v), 0, float64(most)))
			if c.Have &^= f.have; f.have != sensor.CgroupPeak {
				c.Have &^= sensor.CgroupMemory | sensor.CgroupShmem | sensor.CgroupInactive | sensor.CgroupKernel | sensor.CgroupHuge
			}
		}
	}
	return refused
}

// memoryBound returns the number of bytes that the memory of the group cannot exceed. If again is set, it reads the size of the machine's
// memory again, because memory can be added at run time. Callers set it before they reject a value.
func (r *Reader) memoryBound(c *sensor.Cgroup, again bool) uint64 {
	if r.memory == 0 || again {
		b, _ := os.ReadFile(filepath.Join(r.root, "proc/meminfo"))
		_, b, _ = bytes.Cut(b, []byte("MemTotal:"))
		kib, _ := sysfs.Number(bytes.TrimLeft(b[:max(bytes.IndexByte(b, '\n'), 0)], " "))
		if r.memory = uint64(kib) << 10; kib <= 0 {
			r.memory = math.MaxUint64 // unknown
		}
	}
	if c.Have&sensor.CgroupMemoryMax != 0 && c.MemoryMax > 1<<20 {
		return min(r.memory, 2*c.MemoryMax)
	}
	return r.memory
}

// Refused returns the readings that were left out since the last call, as [sensor.ImplausibleError]s.
func (r *Reader) Refused() error {
	err := r.refused
	r.refused = nil
	return err
}

// hugePages returns the size of the transparent huge pages in bytes, or 0 if there are none. It returns the largest
// number if there are several sizes, if the size is unknown, or if cgroups do not count huge pages.
func hugePages(root string) uint64 {
	dir := filepath.Join(root, "sys/kernel/mm/transparent_hugepage")
	in := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(bytes.TrimSpace(b))
	}
	if strings.Contains(in("enabled"), "[never]") {
		return 0
	}
	size, _ := strconv.ParseUint(in("hpage_pmd_size"), 10, 64)
	if size == 0 {
		return math.MaxUint64
	}
	sizes, _ := filepath.Glob(filepath.Join(dir, "hugepages-*kB"))
	for _, of := range sizes {
		name := filepath.Base(of)
		if on := in(name + "/enabled"); name != fmt.Sprintf("hugepages-%dkB", size>>10) && on != "" && !strings.Contains(on, "[never]") {
			return math.MaxUint64
		}
	}
	return size
}

// parseInactive sets the page cache not used recently, which a working set excludes.
func parseInactive(n uint64, c *sensor.Cgroup) {
	c.InactiveFile = n
	c.Have |= sensor.CgroupInactive
}

// parsePages parses a line of memory.stat that both versions have: page faults, huge pages, and refaults of reclaimed pages.
// Huge pages of several kinds are summed.
func parsePages(key []byte, n uint64, c *sensor.Cgroup) {
	switch string(key) {
	case "pgfault":
		c.Faults = n
		c.Have |= sensor.CgroupFaults
	case "pgmajfault":
		c.MajorFaults = n
	case "anon_thp", "file_thp", "shmem_thp", "rss_huge":
		c.HugeBytes += n
		c.Have |= sensor.CgroupHuge
	default:
		parseRefaults(key, n, c)
	}
}

// parseRefaults parses a counter of pages that were read again soon after they were reclaimed. Kernels before 5.9 have one
// such counter, for the page cache.
func parseRefaults(key []byte, pages uint64, c *sensor.Cgroup) {
	switch string(key) {
	case "workingset_refault_anon":
		c.RefaultAnon = multiplySaturating(pages, uint64(os.Getpagesize()))
	case "workingset_refault_file", "workingset_refault":
		c.RefaultFile = multiplySaturating(pages, uint64(os.Getpagesize()))
	default:
		return
	}
	c.Have |= sensor.CgroupRefaults
}

// parseKernelUsage parses memory.kmem.usage_in_bytes of version 1. It covers all kernel memory
// charged to the group, including reclaimable slab (file names and inodes).
func parseKernelUsage(b []byte, c *sensor.Cgroup) {
	if n, ok := parseNumber(b); ok {
		c.Kernel = n
		c.Have |= sensor.CgroupKernel | sensor.CgroupKernelBound
	}
}

// setMemoryMax sets the limit of the group itself. It does not use hierarchical_memory_limit, which includes the limits
// of ancestors, such as the limit that all pods share. Without a limit, version 1 shows the largest multiple of the
// page size in 63 bits.
func setMemoryMax(n uint64, c *sensor.Cgroup) {
	if n < 1<<62 {
		c.MemoryMax = n
		c.Have |= sensor.CgroupMemoryMax
	}
}

// parseMemoryEvents parses memory.events of version 2, or memory.oom_control of version 1. It
// ignores memory.failcnt of version 1, which grows whenever the page cache reaches the limit and is
// no sign of memory pressure.
func parseMemoryEvents(b []byte, c *sensor.Cgroup) {
	var got figureParts
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		key, n, ok := splitPair(l)
		if !ok {
			continue
		}
		switch string(key) {
		case "oom_kill":
			c.OOMKills = n
			c.Have |= sensor.CgroupEvents
		case "max":
			c.MaxEvents = n
			got.add(1)
		case "oom":
			c.OOMEvents = n
			got.add(2)
		}
	}
	if got == 3 {
		c.Have |= sensor.CgroupMemoryEvents
	}
}
