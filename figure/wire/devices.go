package wire

// NodeDevices is the activity of a node's disks, network file systems and interconnect ports over
// the last minutes. Unknown figures are null.
type NodeDevices struct {
	Node    string   `json:"node"`              // Name of the node.
	Site    string   `json:"site,omitempty"`    // Site of the node.
	Disks   []Disk   `json:"disks"`             // Block devices.
	Mounts  []Mount  `json:"mounts"`            // Network file systems, each once even if mounted several times.
	Links   []Link   `json:"links"`             // Ports of InfiniBand, Omni-Path, RoCE and Slingshot.
	Sockets []Socket `json:"sockets"`           // Processor sockets with counted memory traffic.
	Missing []string `json:"missing,omitempty"` // Unavailable parts of a partial answer.
}

// Disk is a block device.
type Disk struct {
	Device string `json:"device"` // Name.
	// Share of time with a request under way; a disk that serves several at once may have room at 1.
	Busy    *float64 `json:"busy"`
	Waiting *float64 `json:"waiting"` // Mean queue length, requests in service included.
	// Mean number of threads of all workloads that waited for it; null if the agent does not know.
	Threads      *float64 `json:"waiting_threads"`
	ReadBytes    *float64 `json:"read_bytes_per_second"`  // Bytes read each second.
	WriteBytes   *float64 `json:"write_bytes_per_second"` // Bytes written each second.
	ReadSeconds  *float64 `json:"read_seconds"`           // Mean time of a read in seconds; null if there was none.
	WriteSeconds *float64 `json:"write_seconds"`          // Mean time of a write in seconds; null if there was none.
}

// Mount is a network file system, counted once however often it is mounted.
type Mount struct {
	Type         string   `json:"type"`                           // nfs, lustre, or the type of a FUSE file system, such as fuse.sshfs.
	Source       string   `json:"source"`                         // Export, or name of the file system; other for all beyond a limit.
	ReadBytes    *float64 `json:"read_bytes_per_second"`          // Bytes read from servers each second.
	WriteBytes   *float64 `json:"write_bytes_per_second"`         // Bytes written to servers each second.
	Operations   *float64 `json:"operations_per_second"`          // Operations each second.
	MetadataRate *float64 `json:"metadata_operations_per_second"` // Operations other than reads and writes of data.
	// Mean time of a read in seconds; null if there was none or times are unknown.
	ReadSeconds     *float64 `json:"read_seconds"`
	WriteSeconds    *float64 `json:"write_seconds"`              // Likewise of a write.
	MetadataSeconds *float64 `json:"metadata_seconds"`           // Likewise of any other operation.
	Retransmissions *float64 `json:"retransmissions_per_second"` // Repeated requests per second.
}

// Link is a port of an interconnect.
type Link struct {
	Device        string   `json:"device"`                    // Name of the adapter.
	Port          string   `json:"port,omitempty"`            // Number of the port; empty for Slingshot.
	Layer         string   `json:"layer"`                     // InfiniBand (Omni-Path too), Ethernet (RoCE, iWARP) or Slingshot.
	Up            *bool    `json:"up"`                        // Whether it carries data.
	Rate          *float64 `json:"rate_bytes_per_second"`     // Rate of the trained link in each direction.
	ReceiveBytes  *float64 `json:"receive_bytes_per_second"`  // Octets received each second.
	TransmitBytes *float64 `json:"transmit_bytes_per_second"` // Octets sent each second.
	// Counters of errors and waits that have reached their maximum and no longer count.
	Saturated []string `json:"saturated,omitempty"`
}

// Socket is a processor socket with its memory.
type Socket struct {
	Socket string `json:"socket"` // Number of the socket.
	// Bytes that its memory controllers read per second, including for devices and the kernel; null if not counted.
	ReadBytes  *float64 `json:"read_bytes_per_second"`
	WriteBytes *float64 `json:"write_bytes_per_second"` // Likewise of writes.
	// Bytes per second between its last-level caches and its own memory (resctrl).
	LocalBytes  *float64 `json:"local_bytes_per_second"`
	RemoteBytes *float64 `json:"remote_bytes_per_second"` // Likewise with memory of other sockets.
	CacheBytes  *float64 `json:"cache_bytes"`             // Occupied part of its last-level caches, bytes (resctrl).
}
