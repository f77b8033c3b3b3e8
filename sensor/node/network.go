package node

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// netColumns are the columns of /proc/net/dev.
var netColumns = [16]string{
	"receive_bytes", "receive_packets", "receive_errs", "receive_drop", "receive_fifo", "receive_frame",
	"receive_compressed", "receive_multicast", "transmit_bytes", "transmit_packets", "transmit_errs",
	"transmit_drop", "transmit_fifo", "transmit_colls", "transmit_carrier", "transmit_compressed",
}

// containerDevices matches the host side of container network devices. They are named by bridge, Flannel, Docker and
// Weave (veth), Calico, Cilium and LXC, Amazon, Google, and OVN. They are omitted because each would have 16 series.
// Their traffic is counted for the pods (sensor/netns) and at the physical devices.
var containerDevices = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(veth.*|cali[0-9a-f]+|lxc[0-9a-f]+|lxc_health|eni[0-9a-f]{8,}|gke[0-9a-f]{8,}|[0-9a-f]{15})$`)
})

// Network reads the traffic of each network device of the machine, except the host side of container devices.
type Network struct {
	text    *kernelFile
	descs   []*metric.Desc
	devices map[string]*device
	round   uint64
	root    string
	now     func() time.Time
}

// device is a device with its series and when it was last seen.
type device struct {
	series []*metric.Series // nil: left out
	round  uint64
	gates  [2]sensor.Register // of bytes received and sent
	most   float64            // bytes a second that the link can carry, twice its speed; 0 if it states none
}

// NewNetwork opens /proc/net/dev.
func NewNetwork(root string) (*Network, error) {
	t, err := openNet(root, "dev")
	if err != nil {
		return nil, err
	}
	n := &Network{text: t, devices: make(map[string]*device), root: cmp.Or(root, "/"), now: time.Now}
	for i, c := range netColumns {
		u := metric.None
		if i%8 == 0 {
			u = metric.Bytes
		}
		n.descs = append(n.descs, counter("node_network_"+c+"_total", "Network device statistic "+c+".", u, "device"))
	}
	return n, nil
}

// Name returns "network".
func (n *Network) Name() string { return "network" }

// Descs lists the columns.
func (n *Network) Descs() []*metric.Desc { return n.descs }

// Close closes the file.
func (n *Network) Close() error { return n.text.Close() }

// Read appends every device that is not left out.
func (n *Network) Read(b *metric.Batch) error {
	t, err := n.text.read()
	if err != nil {
		return err
	}
	n.round++
	var refused error
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		name, f, ok := parseNetDev(l)
		if !ok {
			continue
		}
		d := n.devices[string(name)]
		if d == nil {
			d = &device{}
			if !containerDevices().Match(name) {
				d.most = n.maxLinkRate(name)
				for _, desc := range n.descs {
					d.series = append(d.series, metric.NewSeries(desc, labelValue(name)))
				}
			}
			n.devices[string(name)] = d
		}
		d.round = n.round
		for i, s := range d.series {
			if i%8 == 0 && d.most > 0 {
				if err := n.checkTraffic(d, i/8, name, float64(f[i])); err != nil {
					refused = errors.Join(refused, err)
					continue
				}
			}
			b.Add(s, float64(f[i]))
		}
	}
	dropUnseen(n.devices, n.round)
	return refused
}

// checkTraffic returns an error if the link cannot have carried v bytes since the last reading. Before it rejects a value, it reads the
// speed of
// the link again, because that can change. The speed is not read each time, because that takes a kernel lock.
func (n *Network) checkTraffic(d *device, direction int, name []byte, v float64) error {
	now, g := n.now(), d.gates[direction]
	what := [...]string{"bytes received", "bytes sent"}[direction]
	if _, err := g.Add(now, what, string(name), v, d.most); err != nil {
		if d.most = n.maxLinkRate(name); d.most == 0 {
			return nil
		}
	}
	_, err := d.gates[direction].Add(now, what, string(name), v, d.most)
	return err
}

// maxLinkRate returns the maximum number of bytes per second that a device can report, or 0 if its link has no speed. It
// is twice the speed of the link, because the device may count both directions and may count late.
func (n *Network) maxLinkRate(name []byte) float64 {
	b, err := os.ReadFile(filepath.Join(n.root, "sys/class/net", string(name), "speed"))
	if err != nil {
		return 0
	}
	v, ok := sysfs.Unsigned(bytes.TrimSpace(b)) // a speed of -1 is unknown
	if !ok || v >= 1<<31 {
		return 0
	}
	return 2 * float64(v) * 1e6 / 8
}

// dropUnseen drops devices that were not in this round.
func dropUnseen(devices map[string]*device, round uint64) {
	for name, d := range devices {
		if d.round != round {
			delete(devices, name)
		}
	}
}

// parseNetDev parses a line of /proc/net/dev, such as " eth0: 846719415 51742 0 ...". A device name may contain colons
// ("eth0:1"), so the name ends at the last colon.
func parseNetDev(l []byte) (name []byte, f [16]uint64, ok bool) {
	i := bytes.LastIndexByte(l, ':')
	if i < 1 {
		return nil, f, false
	}
	name = bytes.TrimLeft(l[:i], " ")
	return name, f, len(name) > 0 && parseNumbers(l[i+1:], f[:]) == 16
}
