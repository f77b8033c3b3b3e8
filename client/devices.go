package client

import (
	"context"
	"net/url"
)

// NodeDevices is the activity of the disks, network file systems and interconnect ports of a node
// over the last minutes. Unknown figures are null.
type NodeDevices struct {
	Node    string   `json:"node"`
	Site    string   `json:"site,omitempty"`
	Disks   []Disk   `json:"disks"`
	Mounts  []Mount  `json:"mounts"`
	Links   []Link   `json:"links"`
	Sockets []Socket `json:"sockets"`
	Missing []string `json:"missing,omitempty"`
}

// Disk is a block device.
type Disk struct {
	Device string `json:"device"`
	// Busy is the share of time with a request in progress, Waiting the mean queue length including requests in service.
	Busy    *float64 `json:"busy"`
	Waiting *float64 `json:"waiting"`
	// Threads is how many threads of all workloads slept on average until it had answered; null where the agent cannot tell.
	Threads    *float64 `json:"waiting_threads"`
	ReadBytes  *float64 `json:"read_bytes_per_second"`
	WriteBytes *float64 `json:"write_bytes_per_second"`
	// Mean seconds per read or write, including time in the queue; null without any.
	ReadSeconds  *float64 `json:"read_seconds"`
	WriteSeconds *float64 `json:"write_seconds"`
}

// Mount is a network file system, counted once however often it is mounted.
type Mount struct {
	Type       string   `json:"type"`   // nfs, lustre, or the type of a FUSE file system, such as fuse.sshfs
	Source     string   `json:"source"` // export or name; "other" for all beyond a limit
	ReadBytes  *float64 `json:"read_bytes_per_second"`
	WriteBytes *float64 `json:"write_bytes_per_second"`
	// Operations per second, and their mean duration.
	Operations      *float64 `json:"operations_per_second"`
	MetadataRate    *float64 `json:"metadata_operations_per_second"`
	ReadSeconds     *float64 `json:"read_seconds"`
	WriteSeconds    *float64 `json:"write_seconds"`
	MetadataSeconds *float64 `json:"metadata_seconds"`
	// Retransmissions are repeated requests per second.
	Retransmissions *float64 `json:"retransmissions_per_second"`
}

// Link is a port of an interconnect.
type Link struct {
	Device        string   `json:"device"`
	Port          string   `json:"port,omitempty"`
	Layer         string   `json:"layer"` // InfiniBand (Omni-Path too), Ethernet (RoCE, iWARP) or Slingshot
	Up            *bool    `json:"up"`
	Rate          *float64 `json:"rate_bytes_per_second"` // in each direction
	ReceiveBytes  *float64 `json:"receive_bytes_per_second"`
	TransmitBytes *float64 `json:"transmit_bytes_per_second"`
	// Saturated lists counters of errors and waits that have reached their maximum and no longer count.
	Saturated []string `json:"saturated,omitempty"`
}

// Socket is a processor socket with its memory.
type Socket struct {
	Socket string `json:"socket"`
	// ReadBytes and WriteBytes are counted by its memory controllers, devices and the kernel included.
	ReadBytes  *float64 `json:"read_bytes_per_second"`
	WriteBytes *float64 `json:"write_bytes_per_second"`
	// LocalBytes and RemoteBytes are what its last-level caches exchange with its own memory and with that of other sockets, and CacheBytes how much of them
	// is occupied; by the monitoring of the processor (resctrl).
	LocalBytes  *float64 `json:"local_bytes_per_second"`
	RemoteBytes *float64 `json:"remote_bytes_per_second"`
	CacheBytes  *float64 `json:"cache_bytes"`
}

// Devices returns the activity of the devices of a node. The site may be empty if node names are unique.
func (c *Client) Devices(ctx context.Context, site, node string) (NodeDevices, error) {
	var d NodeDevices
	q := url.Values{}
	if site != "" {
		q.Set("site", site)
	}
	err := c.get(ctx, "/api/reckon/v1/nodes/"+url.PathEscape(node)+"/devices", q, &d)
	return d, err
}
