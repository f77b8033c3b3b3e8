package answer

import (
	"context"
	"time"

	"reckon/client"
)

// Devices answers what the disks, network file systems and interconnects of a node do.
type Devices struct {
	Views  DeviceViews
	Outage *Outage // nil where the series are in this process
	Clock  func() time.Time
}

// DeviceViews is what is read of the series of devices; query.Views has it.
type DeviceViews interface {
	Devices(ctx context.Context, site, node string, now time.Time) (client.NodeDevices, error)
}

// Devices returns those of one node. A node of which nothing is known has none.
func (d *Devices) Devices(ctx context.Context, site, node string) (client.NodeDevices, error) {
	var missing []string
	out, err := d.Views.Devices(ctx, site, node, d.Clock())
	if err := d.Outage.degrade(&missing, "all devices", err); err != nil {
		return client.NodeDevices{}, err
	}
	if len(missing) > 0 {
		out = client.NodeDevices{Node: node, Site: site, Disks: []client.Disk{}, Mounts: []client.Mount{}, Links: []client.Link{}}
	}
	out.Missing = missing
	return out, nil
}
