package recording

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Files returns the files of the machine that are recorded, as patterns of [path.Match]. They exclude everything that
// may contain user data, such as command lines, environments, names of open files and network addresses.
func Files() []string {
	return slices.Concat(machineFiles(), deviceFiles())
}

func machineFiles() []string {
	return []string{
		"etc/os-release",
		"proc/stat", "proc/meminfo", "proc/loadavg", "proc/uptime", "proc/version", "proc/vmstat", "proc/diskstats",
		"proc/cpuinfo", "proc/cgroups", "proc/filesystems", "proc/schedstat",
		"proc/mounts", "proc/self/mounts", "proc/self/mountinfo", "proc/self/cgroup", "proc/1/mounts", "proc/1/mountinfo",
		"proc/net/dev", "proc/self/net/dev", "proc/net/netstat", "proc/net/snmp", "proc/net/snmp6", "proc/net/sockstat",
		"proc/net/sockstat6",
		"proc/1/net/dev", "proc/1/net/netstat", "proc/1/net/snmp", "proc/1/net/snmp6", "proc/1/net/sockstat", "proc/1/net/sockstat6",
		"proc/pressure/cpu", "proc/pressure/io", "proc/pressure/memory",
		"proc/sys/kernel/osrelease", "proc/sys/kernel/hostname", "proc/sys/kernel/pid_max", "proc/sys/kernel/random/boot_id",
		"proc/sys/kernel/random/entropy_avail", "proc/sys/kernel/threads-max", "proc/sys/fs/file-nr",
		"proc/sys/net/netfilter/nf_conntrack_count", "proc/sys/net/netfilter/nf_conntrack_max",
		"sys/devices/system/cpu/online", "sys/devices/system/cpu/possible", "sys/devices/system/cpu/present",
		"sys/devices/system/cpu/cpu[0-9]*/topology/core_id", "sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id",
		"sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", "sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq",
		"sys/devices/system/node/online", "sys/devices/system/node/node[0-9]*/cpulist", "sys/devices/system/node/node[0-9]*/meminfo",
		"sys/class/net/*/device/vendor", "sys/class/net/*/speed", "sys/class/net/*/operstate", "sys/class/net/*/carrier",
		"sys/class/net/*/mtu",
		"sys/block/*/size", "sys/block/*/queue/hw_sector_size", "sys/block/*/queue/rotational",
	}
}

func deviceFiles() []string {
	return []string{
		"sys/class/powercap/*/name", "sys/class/powercap/*/enabled", "sys/class/powercap/*/energy_uj",
		"sys/class/powercap/*/max_energy_range_uj",
		"sys/class/hwmon/hwmon*/name", "sys/class/hwmon/hwmon*/device",
		"sys/class/hwmon/hwmon*/*_input", "sys/class/hwmon/hwmon*/*_label", "sys/class/hwmon/hwmon*/*_average",
		"sys/class/hwmon/hwmon*/*_enable",
		"sys/class/hwmon/hwmon*/*_crit", "sys/class/hwmon/hwmon*/*_max", "sys/class/hwmon/hwmon*/shunt*_resistor",
		"sys/class/thermal/thermal_zone*/type", "sys/class/thermal/thermal_zone*/temp",
		"sys/class/drm/card[0-9]*/device/vendor", "sys/class/drm/card[0-9]*/device/device", "sys/class/drm/card[0-9]*/device/driver",
		"sys/class/drm/card[0-9]*/device/gpu_busy_percent", "sys/class/drm/card[0-9]*/device/mem_busy_percent",
		"sys/class/drm/card[0-9]*/device/mem_info_*", "sys/class/drm/card[0-9]*/device/gpu_metrics",
		"sys/class/drm/card[0-9]*/device/pp_dpm_*",
		"sys/class/drm/card[0-9]*/device/hwmon/hwmon*/name", "sys/class/drm/card[0-9]*/device/hwmon/hwmon*/*_input",
		"sys/class/drm/card[0-9]*/device/hwmon/hwmon*/*_average", "sys/class/drm/card[0-9]*/device/hwmon/hwmon*/*_label",
		"sys/class/devfreq/*/cur_freq", "sys/class/devfreq/*/max_freq", "sys/class/devfreq/*/load", "sys/class/devfreq/*/device/load",
		"sys/devices/gpu.0/load", "sys/devices/platform/gpu.0/load",
		"sys/bus/iio/devices/iio:device*/name", "sys/bus/iio/devices/iio:device*/in_*", "sys/bus/iio/devices/iio:device*/rail_name_*",
		"sys/bus/i2c/drivers/ina3221*/*/hwmon/hwmon*/*_input", "sys/bus/i2c/drivers/ina3221*/*/hwmon/hwmon*/*_label",
		"sys/cray/pm_counters/*",
		"sys/devices/system/cpu/cpu[0-9]*/cache/index3/id", "sys/fs/resctrl/info/L3_MON/*",
		"sys/fs/resctrl/mon_data/mon_L3_*/*", "sys/fs/resctrl/mon_groups/*/mon_data/mon_L3_*/*", "sys/fs/resctrl/*/mon_data/mon_L3_*/*",
		"sys/class/infiniband/*/board_id", "sys/class/infiniband/*/fw_ver", "sys/class/infiniband/*/hca_type",
		"sys/class/infiniband/*/ports/[0-9]*/state", "sys/class/infiniband/*/ports/[0-9]*/phys_state",
		"sys/class/infiniband/*/ports/[0-9]*/rate",
		"sys/class/infiniband/*/ports/[0-9]*/link_layer", "sys/class/infiniband/*/ports/[0-9]*/counters/*",
		"sys/class/infiniband/*/ports/[0-9]*/counters_ext/*",
		"sys/class/infiniband/*/ports/[0-9]*/hw_counters/*",
		"sys/class/cxi/*/device/telemetry/hni_sts_*", "sys/class/cxi/*/device/telemetry/hni_pcs_*_cw", "sys/class/cxi/*/device/port/link",
		"sys/class/cxi/*/device/port/speed",
		"sys/class/cxi/*/device/port/0/link/state", "sys/class/cxi/*/device/port/0/link/speed",
		"sys/class/power_supply/*/type", "sys/class/power_supply/*/status", "sys/class/power_supply/*/capacity",
		"sys/class/power_supply/*/online",
		"sys/class/power_supply/*/energy_*", "sys/class/power_supply/*/charge_*", "sys/class/power_supply/*/power_now",
		"sys/class/power_supply/*/current_now", "sys/class/power_supply/*/voltage_now",
	}
}

// processFiles returns the recorded files of each process.
func processFiles() []string {
	return []string{"stat", "status", "statm", "cgroup", "io", "schedstat", "sessionid"}
}

// cgroupFiles returns the recorded files of each control group, of either version.
func cgroupFiles() []string {
	return []string{
		"cpu.stat", "cpu.max", "cpu.pressure", "memory.current", "memory.peak", "memory.stat", "memory.events", "memory.max",
		"memory.swap.current", "memory.pressure", "io.stat", "io.pressure", "memory.numa_stat", "pids.current", "cgroup.controllers",
		"cgroup.procs",
		"cpuacct.usage", "cpuacct.stat", "cpuacct.usage_user", "cpuacct.usage_sys", "cpu.cfs_quota_us", "cpu.cfs_period_us",
		"memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.memsw.usage_in_bytes", "memory.limit_in_bytes",
		"memory.kmem.usage_in_bytes", "memory.failcnt", "memory.oom_control", "blkio.throttle.io_service_bytes",
		"blkio.throttle.io_service_bytes_recursive",
	}
}

// Collector reads the listed files of a machine.
type Collector struct {
	// Root of the file tree, "/" by default.
	Root string
	// Limits; everything beyond is not recorded. NewCollector sets them.
	Processes, Cgroups int
	Bytes              int64

	left int64
	out  []File
}

// NewCollector returns a collector of at most 5,000 processes, 5,000 control groups and 128 MiB per pass.
func NewCollector(root string) *Collector {
	if root == "" {
		root = "/"
	}
	return &Collector{Root: root, Processes: 5000, Cgroups: 5000, Bytes: 128 << 20}
}

// Collect returns the existing files. It omits missing and unreadable ones.
func (c *Collector) Collect() []File {
	c.left, c.out = c.Bytes, nil
	tree := os.DirFS(c.Root)
	for _, pattern := range Files() {
		names, _ := fs.Glob(tree, pattern) // the patterns are well formed (test)
		for _, name := range names {
			c.readFile(name)
		}
	}
	for _, pid := range c.processIDs() {
		for _, f := range processFiles() {
			c.readFile(path.Join("proc", pid, f))
		}
	}
	groups := 0
	c.walkGroups("sys/fs/cgroup", 0, &groups)
	slices.SortFunc(c.out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return c.out
}

func (c *Collector) processIDs() []string {
	entries, _ := os.ReadDir(filepath.Join(c.Root, "proc"))
	var pids []string
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 31); err == nil {
			pids = append(pids, e.Name())
		}
	}
	return pids[:min(len(pids), c.Processes)]
}

// walkGroups walks a directory of control groups, parents first.
func (c *Collector) walkGroups(dir string, depth int, n *int) {
	if *n >= c.Cgroups || depth > 12 {
		return
	}
	*n++
	entries, _ := os.ReadDir(filepath.Join(c.Root, dir))
	for _, e := range entries {
		if slices.Contains(cgroupFiles(), e.Name()) {
			c.readFile(path.Join(dir, e.Name()))
		}
	}
	for _, e := range entries {
		if e.IsDir() {
			c.walkGroups(path.Join(dir, e.Name()), depth+1, n)
		}
	}
}

// readFile reads one file; the kernel does not report its size beforehand.
func (c *Collector) readFile(name string) {
	if c.left <= 0 {
		return
	}
	full := filepath.Join(c.Root, name)
	info, err := os.Stat(full)
	if err != nil {
		return
	}
	if info.IsDir() { // the target's name identifies the driver or device
		if link, err := os.Readlink(full); err == nil && !path.IsAbs(link) && fs.ValidPath(path.Join(path.Dir(name), link)) {
			c.out = append(c.out, File{Path: name, Link: link})
		}
		return
	}
	if !info.Mode().IsRegular() {
		return
	}
	f, err := os.Open(full)
	if err != nil {
		return
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, DefaultLimits().File))
	if err != nil {
		return
	}
	c.left -= int64(len(data))
	c.out = append(c.out, File{Path: name, Data: data})
}
