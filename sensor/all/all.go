// Package all lists the sensors that append samples, so that adding one is a folder and a
// line here. It is the only package below sensor that imports its siblings.
package all

import (
	"reckon/sensor"
	"reckon/sensor/amdgpu"
	"reckon/sensor/battery"
	"reckon/sensor/cray"
	"reckon/sensor/drm"
	"reckon/sensor/host"
	"reckon/sensor/hwmon"
	"reckon/sensor/infiniband"
	"reckon/sensor/netfs"
	"reckon/sensor/node"
	"reckon/sensor/nvml"
	"reckon/sensor/rapl"
	"reckon/sensor/redfish"
	"reckon/sensor/resctrl"
	"reckon/sensor/slingshot"
	"reckon/sensor/tegra"
	"reckon/sensor/thermal"
	"reckon/sensor/uncore"
)

// Entry is a sensor that may or may not be available.
type Entry struct {
	// Name is the name of the sensor, for flags and for reporting that it is unavailable.
	Name string
	// Open opens the sensor. The error is [sensor.ErrUnavailable] if the machine does not have it.
	Open func() (sensor.Sensor, error)
	// Hotplug means that its source may appear at run time: a driver, a kernel module or a device.
	Hotplug bool
}

// Options are settings of sensors that cannot be detected.
type Options struct {
	Root string // of the file tree; "" or "/" is our own machine
	// Tegrastats is a file or named pipe that NVIDIA's tegrastats writes to; empty for none.
	Tegrastats string
	// HostEnergy is the file in which the host of a virtual machine reports its energy, by default [host.Default].
	HostEnergy string
	// Redfish is the configuration file of management controllers; empty for none.
	Redfish string
}

// Sensors returns the sensors of the machine with its file tree at root. An empty root is the same as "/".
func Sensors(root string) []Entry { return Configured(Options{Root: root}) }

// Configured lists the sensors with the given settings.
func Configured(o Options) []Entry {
	root := o.Root
	return []Entry{
		{Name: "cpu", Open: at(root, node.NewCPU)},
		{Name: "memory", Open: at(root, node.NewMemory)},
		{Name: "load", Open: at(root, node.NewLoad)},
		{Name: "pressure", Open: at(root, node.NewPressure)},
		{Name: "stat", Open: at(root, node.NewStat)},
		{Name: "vmstat", Open: at(root, node.NewVMStat)},
		{Name: "disk", Open: at(root, node.NewDisk)},
		{Name: "filesystem", Open: at(root, node.NewFilesystem)},
		{Name: "netfs", Open: at(root, netfs.New), Hotplug: true},
		{Name: "network", Open: at(root, node.NewNetwork)},
		{Name: "sockstat", Open: at(root, node.NewSockstat)},
		{Name: "netstat", Open: at(root, node.NewNetstat)},
		{Name: "conntrack", Open: at(root, node.NewConntrack)},
		{Name: "netclass", Open: at(root, node.NewNetclass)},
		{Name: "infiniband", Open: at(root, infiniband.New), Hotplug: true},
		{Name: "slingshot", Open: at(root, slingshot.New), Hotplug: true},
		{Name: "resctrl", Open: at(root, resctrl.New), Hotplug: true},
		{Name: "uncore", Open: at(root, uncore.New)},
		{Name: "timex", Open: at(root, node.NewTimex)},
		{Name: "filefd", Open: at(root, node.NewFileFD)},
		{Name: "uname", Open: at(root, node.NewUname)},
		{Name: "os", Open: at(root, node.NewOS)},
		{Name: "rapl", Open: at(root, rapl.New), Hotplug: true},
		{Name: "cray", Open: at(root, cray.New), Hotplug: true},
		{Name: "hwmon", Open: at(root, hwmon.New), Hotplug: true},
		{Name: "redfish", Open: at(o.Redfish, redfish.New)},
		{Name: "battery", Open: at(root, battery.New), Hotplug: true},
		{Name: "host", Open: func() (sensor.Sensor, error) {
			return Opened(host.New(host.Options{Root: root, File: o.HostEnergy}))
		}, Hotplug: true},
		{Name: "thermal", Open: at(root, thermal.New), Hotplug: true},
		{Name: "tegra", Open: at(root, func(root string) (*tegra.Sensor, error) {
			return tegra.Open(tegra.Options{Root: root, Stats: o.Tegrastats})
		})},
		{Name: "nvml", Open: at(root, nvml.New), Hotplug: true},
		{Name: "amdgpu", Open: at(root, amdgpu.New), Hotplug: true},
		{Name: "drm", Open: at(root, drm.New), Hotplug: true},
		{Name: "time", Open: func() (sensor.Sensor, error) { return node.NewClock(), nil }},
	}
}

// at binds the root to a constructor.
func at[S sensor.Sensor](root string, open func(root string) (S, error)) func() (sensor.Sensor, error) {
	return func() (sensor.Sensor, error) { return Opened(open(root)) }
}

// Opened converts a typed nil to a nil interface if the sensor could not be opened, so that callers
// can compare it with nil.
func Opened[S sensor.Sensor](s S, err error) (sensor.Sensor, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
