package client

import (
	"context"
	"net/url"
)

// NodeDevices is what moves bytes on a node: disks, network file systems and ports of interconnects,
// over the last minutes. A figure that is not known is null.
type NodeDevices struct {
	Node    string   `json:"node"`
	Site    string   `json:"site,omitempty"`
	Disks   []Disk   `json:"disks"`
	Mounts  []Mount  `json:"mounts"`
	Links   []Link   `json:"links"`
	Missing []string `json:"missing,omitempty"`
}

// Disk is a block device.
type Disk struct {
	Device string `json:"device"`
	// Busy is the share of time with a request under way, Waiting how many were on average, those being served included.
	Busy       *float64 `json:"busy"`
	Waiting    *float64 `json:"waiting"`
	ReadBytes  *float64 `json:"read_bytes_per_second"`
	WriteBytes *float64 `json:"write_bytes_per_second"`
	// Seconds that a read or a write took on average, from when it was queued; null where there was none.
	ReadSeconds  *float64 `json:"read_seconds"`
	WriteSeconds *float64 `json:"write_seconds"`
}

// Mount is a network file system, however often it is mounted.
type Mount struct {
	Type       string   `json:"type"`   // nfs, lustre, or that of a FUSE file system, such as fuse.sshfs
	Source     string   `json:"source"` // export or name; other for all those beyond a bound
	ReadBytes  *float64 `json:"read_bytes_per_second"`
	WriteBytes *float64 `json:"write_bytes_per_second"`
	// Operations a second, and how long they took on average.
	Operations      *float64 `json:"operations_per_second"`
	MetadataRate    *float64 `json:"metadata_operations_per_second"`
	ReadSeconds     *float64 `json:"read_seconds"`
	WriteSeconds    *float64 `json:"write_seconds"`
	MetadataSeconds *float64 `json:"metadata_seconds"`
	// Retransmissions are requests a second that were sent again.
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
	// Saturated are counters of errors and waits that stand at their end and count no more.
	Saturated []string `json:"saturated,omitempty"`
}

// Devices returns what the devices of a node do. The site may be empty where names of nodes are unique.
func (c *Client) Devices(ctx context.Context, site, node string) (NodeDevices, error) {
	var d NodeDevices
	q := url.Values{}
	if site != "" {
		q.Set("site", site)
	}
	err := c.get(ctx, "/api/reckon/v1/nodes/"+url.PathEscape(node)+"/devices", q, &d)
	return d, err
}
