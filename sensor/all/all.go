// Package all lists the sensors that append samples, so that adding one is a folder
// and a line here. It is the only package below sensor that knows its siblings.
package all

import (
	"reckon/sensor"
	"reckon/sensor/amdgpu"
	"reckon/sensor/battery"
	"reckon/sensor/cray"
	"reckon/sensor/drm"
	"reckon/sensor/hwmon"
	"reckon/sensor/node"
	"reckon/sensor/nvml"
	"reckon/sensor/rapl"
	"reckon/sensor/redfish"
	"reckon/sensor/tegra"
	"reckon/sensor/thermal"
)

// Entry is a sensor that may or may not be here.
type Entry struct {
	// Name is what the sensor calls itself, for flags and for saying that it is not here.
	Name string
	// Open finds out. The error is [sensor.ErrUnavailable] where the machine does not
	// have it.
	Open func() (sensor.Sensor, error)
}

// Options says what sensors read that can not be found out.
type Options struct {
	Root string // of the file tree; "" or "/" is our own machine
	// Tegrastats is a file or named pipe that NVIDIA's tegrastats writes to; empty for none.
	Tegrastats string
	// Redfish is the file that names management controllers; empty for none.
	Redfish string
}

// Sensors lists the sensors that read the machine whose file tree is at root, "" or
// "/" for our own.
func Sensors(root string) []Entry { return Configured(Options{Root: root}) }

// Configured lists the sensors with what is configured.
func Configured(o Options) []Entry {
	root := o.Root
	return []Entry{
		{"cpu", at(root, node.NewCPU)},
		{"memory", at(root, node.NewMemory)},
		{"load", at(root, node.NewLoad)},
		{"pressure", at(root, node.NewPressure)},
		{"stat", at(root, node.NewStat)},
		{"vmstat", at(root, node.NewVMStat)},
		{"disk", at(root, node.NewDisk)},
		{"filesystem", at(root, node.NewFilesystem)},
		{"network", at(root, node.NewNetwork)},
		{"sockstat", at(root, node.NewSockstat)},
		{"netstat", at(root, node.NewNetstat)},
		{"conntrack", at(root, node.NewConntrack)},
		{"netclass", at(root, node.NewNetclass)},
		{"timex", at(root, node.NewTimex)},
		{"filefd", at(root, node.NewFileFD)},
		{"uname", at(root, node.NewUname)},
		{"os", at(root, node.NewOS)},
		{"rapl", at(root, rapl.New)},
		{"cray", at(root, cray.New)},
		{"hwmon", at(root, hwmon.New)},
		{"redfish", at(o.Redfish, redfish.New)},
		{"battery", at(root, battery.New)},
		{"thermal", at(root, thermal.New)},
		{"tegra", at(root, func(root string) (*tegra.Sensor, error) {
			return tegra.Open(tegra.Options{Root: root, Stats: o.Tegrastats})
		})},
		{"nvml", at(root, nvml.New)},
		{"amdgpu", at(root, amdgpu.New)},
		{"drm", at(root, drm.New)},
		{"time", func() (sensor.Sensor, error) { return node.NewClock(), nil }},
	}
}

// at binds the root to a constructor.
func at[S sensor.Sensor](root string, open func(root string) (S, error)) func() (sensor.Sensor, error) {
	return func() (sensor.Sensor, error) { return Opened(open(root)) }
}

// Opened makes a sensor that could not be opened nil, not an interface that holds a nil
// pointer.
func Opened[S sensor.Sensor](s S, err error) (sensor.Sensor, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
