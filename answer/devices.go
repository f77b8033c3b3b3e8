package answer

import (
	"context"
	"time"

	"reckon/figure/wire"
)

// Devices returns the activity of the disks, network file systems and interconnects of a node.
type Devices struct {
	Views  DeviceViews
	Outage *Outage // nil if the series are stored in this process
	Clock  func() time.Time
}

// DeviceViews reads the series of devices; implemented by query.Views.
type DeviceViews interface {
	Devices(ctx context.Context, site, node string, now time.Time) (wire.NodeDevices, error)
}

// Devices returns the devices of one node. An unknown node has none.
func (d *Devices) Devices(ctx context.Context, site, node string) (wire.NodeDevices, error) {
	var missing []string
	out, err := d.Views.Devices(ctx, site, node, d.Clock())
	if err := d.Outage.addMissing(&missing, "all devices", err); err != nil {
		return wire.NodeDevices{}, err
	}
	if len(missing) > 0 {
		out = wire.NodeDevices{Node: node, Site: site, Disks: []wire.Disk{}, Mounts: []wire.Mount{}, Links: []wire.Link{},
			Sockets: []wire.Socket{}}
	}
	out.Missing = missing
	return out, nil
}
