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
		{Name: "cpu", Open: atRoot(root, node.NewCPU)},
		{Name: "memory", Open: atRoot(root, node.NewMemory)},
		{Name: "load", Open: atRoot(root, node.NewLoad)},
		{Name: "pressure", Open: atRoot(root, node.NewPressure)},
		{Name: "stat", Open: atRoot(root, node.NewStat)},
		{Name: "vmstat", Open: atRoot(root, node.NewVMStat)},
		{Name: "disk", Open: atRoot(root, node.NewDisk)},
		{Name: "filesystem", Open: atRoot(root, node.NewFilesystem)},
		{Name: "netfs", Open: atRoot(root, netfs.New), Hotplug: true},
		{Name: "network", Open: atRoot(root, node.NewNetwork)},
		{Name: "sockstat", Open: atRoot(root, node.NewSockstat)},
		{Name: "netstat", Open: atRoot(root, node.NewNetstat)},
		{Name: "conntrack", Open: atRoot(root, node.NewConntrack)},
		{Name: "netclass", Open: atRoot(root, node.NewNetclass)},
		{Name: "infiniband", Open: atRoot(root, infiniband.New), Hotplug: true},
		{Name: "slingshot", Open: atRoot(root, slingshot.New), Hotplug: true},
		{Name: "resctrl", Open: atRoot(root, resctrl.New), Hotplug: true},
		{Name: "uncore", Open: atRoot(root, uncore.New)},
		{Name: "timex", Open: atRoot(root, node.NewTimex)},
		{Name: "filefd", Open: atRoot(root, node.NewFileFD)},
		{Name: "uname", Open: atRoot(root, node.NewUname)},
		{Name: "os", Open: atRoot(root, node.NewOS)},
		{Name: "rapl", Open: atRoot(root, rapl.New), Hotplug: true},
		{Name: "cray", Open: atRoot(root, cray.New), Hotplug: true},
		{Name: "hwmon", Open: atRoot(root, hwmon.New), Hotplug: true},
		{Name: "redfish", Open: atRoot(o.Redfish, redfish.New)},
		{Name: "battery", Open: atRoot(root, battery.New), Hotplug: true},
		{Name: "host", Open: func() (sensor.Sensor, error) {
			return Opened(host.New(host.Options{Root: root, File: o.HostEnergy}))
		}, Hotplug: true},
		{Name: "thermal", Open: atRoot(root, thermal.New), Hotplug: true},
		{Name: "tegra", Open: atRoot(root, func(root string) (*tegra.Sensor, error) {
			return tegra.Open(tegra.Options{Root: root, Stats: o.Tegrastats})
		})},
		{Name: "nvml", Open: atRoot(root, nvml.New), Hotplug: true},
		{Name: "amdgpu", Open: atRoot(root, amdgpu.New), Hotplug: true},
		{Name: "drm", Open: atRoot(root, drm.New), Hotplug: true},
		{Name: "time", Open: func() (sensor.Sensor, error) { return node.NewClock(), nil }},
	}
}

// atRoot binds the root to a constructor.
func atRoot[S sensor.Sensor](root string, open func(root string) (S, error)) func() (sensor.Sensor, error) {
	return func() (sensor.Sensor, error) { return Opened(open(root)) }
}

// Opened returns s and err of an open function as a Sensor. After an error it returns a nil interface, because an
// interface with a nil pointer in it would not equal nil.
func Opened[S sensor.Sensor](s S, err error) (sensor.Sensor, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
