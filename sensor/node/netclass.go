package node

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// Netclass reads the link state, the MTU and the speed of network hardware. It reads them once a minute, because
// reading the speed takes a kernel lock. It omits virtual devices, because a node with containers has hundreds of them.
type Netclass struct {
	dir     string
	descs   []*metric.Desc
	devices []netDevice
	read    time.Time
	now     func() time.Time
}

type netDevice struct {
	series [4]*metric.Series
	values [4]float64
	has    [4]bool
}

// NewNetclass opens /sys/class/net.
func NewNetclass(root string) (*Netclass, error) {
	n := &Netclass{dir: filepath.Join(cmp.Or(root, "/"), "sys/class/net"), now: time.Now, descs: []*metric.Desc{
		gauge("node_network_up", "Value is 1 if operstate is 'up', 0 otherwise.", metric.None, "device"),
		gauge("node_network_carrier", "Network device property: carrier.", metric.None, "device"),
		gauge("node_network_mtu_bytes", "Network device property: mtu_bytes.", metric.Bytes, "device"),
		gauge("node_network_speed_bytes", "Network device property: speed_bytes.", metric.Bytes, "device"),
	}}
	n.readDevices()
	if len(n.devices) == 0 {
		return nil, sensor.Unavailable("no network hardware", "", fmt.Errorf("%s has no device with hardware behind it", n.dir))
	}
	return n, nil
}

// readDevices reads all devices.
func (n *Netclass) readDevices() {
	n.read = n.now()
	n.devices = n.devices[:0]
	list, err := os.ReadDir(n.dir)
	if err != nil {
		return
	}
	for _, e := range list {
		dir := filepath.Join(n.dir, e.Name())
		if !fileExists(filepath.Join(dir, "device")) && !fileExists(filepath.Join(dir, "bonding")) {
			continue
		}
		var d netDevice
		for i, desc := range n.descs {
			d.series[i] = metric.NewSeries(desc, labelValue([]byte(e.Name())))
		}
		if state, err := os.ReadFile(filepath.Join(dir, "operstate")); err == nil {
			d.has[0] = true
			if bytes.Equal(bytes.TrimSpace(state), []byte("up")) {
				d.values[0] = 1
			}
		}
		for i, name := range []string{"carrier", "mtu", "speed"} { // the first and the last fail if the link is down
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			v, ok := sysfs.Unsigned(bytes.TrimSpace(raw)) // a speed of -1 is unknown
			if ok && name == "speed" {
				ok = v < 1<<31
				v *= 1e6 / 8 // megabits
			}
			d.values[i+1], d.has[i+1] = float64(v), ok
		}
		n.devices = append(n.devices, d)
	}
	slices.SortFunc(n.devices, func(a, b netDevice) int {
		return bytes.Compare([]byte(a.series[0].Values[0]), []byte(b.series[0].Values[0]))
	})
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Name returns "netclass".
func (n *Netclass) Name() string { return "netclass" }

// Descs lists the properties.
func (n *Netclass) Descs() []*metric.Desc { return n.descs }

// Close does nothing.
func (n *Netclass) Close() error { return nil }

// Read appends the properties as of the last minute.
func (n *Netclass) Read(b *metric.Batch) error {
	if n.now().Sub(n.read) >= time.Minute {
		n.readDevices()
	}
	for i := range n.devices {
		d := &n.devices[i]
		for k, s := range d.series {
			if d.has[k] {
				b.Add(s, d.values[k])
			}
		}
	}
	return nil
}
