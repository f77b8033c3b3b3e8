package apitest

import (
	"context"

	"reckon/web/client"
)

// Devices returns the same devices for every node: a busy disk, a slow NFS mount, and two ports, one of them down.
func (b *Backend) Devices(_ context.Context, site, node string) (client.NodeDevices, error) {
	if b.Err != nil {
		return client.NodeDevices{}, b.Err
	}
	return client.NodeDevices{Node: node, Site: site,
		Disks: []client.Disk{
			{Device: "nvme0n1", Busy: f(0.82), Waiting: f(3.4), Threads: f(2.5), ReadBytes: f(90 << 20), WriteBytes: f(2 << 20),
				ReadSeconds: f(0.0016)}},
		Mounts: []client.Mount{
			{Type: "nfs", Source: "fs1:/home", ReadBytes: f(1 << 20), WriteBytes: f(0), Operations: f(840), MetadataRate: f(800),
				ReadSeconds: f(0.042), MetadataSeconds: f(1.3), Retransmissions: f(0.1)}},
		Links: []client.Link{
			{Device: "mlx5_0", Port: "1", Layer: "InfiniBand", Up: new(true), Rate: f(25e9), ReceiveBytes: f(3 << 30),
				TransmitBytes: f(1 << 30), Saturated: []string{"port_xmit_wait"}},
			{Device: "mlx5_1", Port: "1", Layer: "Ethernet", Up: new(false)},
		},
	}, nil
}
