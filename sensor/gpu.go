package sensor

// GPUFields is the set of figures in a [GPU] or [GPUUse] that the source could read. A figure
// without its bit is unknown, not zero.
type GPUFields uint8

// The figures of a device and of its use.
const (
	GPUBusy    GPUFields = 1 << iota // Busy
	GPUMemory                        // Memory
	GPUSize                          // MemorySize
	GPUSampled                       // of a use: Busy is from samples, which may name only one of several users at a time
	GPULeft                          // of a use: the process does not have the device open any more
)

// GPU is a graphics processor or accelerator, or a partition of one, in one reading.
type GPU struct {
	// Vendor is one lower-case word: nvidia, amd, intel.
	Vendor string
	// Device is its permanent id: the UUID, or the PCI address if it has none. It is also the zone of its meter.
	Device string
	// Parent is the Device that this one is a partition of (MIG), empty for a whole one.
	Parent string
	// Partition is the number of the GPU instance of a partition (MIG), else empty.
	Partition string
	Model     string
	Driver    string // driver version, empty if unknown
	// Nodes are the device files that processes open, see [Node]; 0 if there is none or it is unknown.
	Nodes [2]uint32
	PCI   string // PCI bus address in the format of the vendor's tools, empty if unknown
	Index int    // in the numbering of the vendor's tools
	Have  GPUFields
	// Span is the time in seconds covered by Busy, since the previous reading of this device; 0 at the first. Busy is
	// the part of it in which the device computed. A partitioned device has no Busy if its driver does not report it.
	Span, Busy         float64
	Memory, MemorySize uint64 // device memory in use, and in total; bytes
}

// SetMemory sets the used memory and the memory size of the device in bytes. If used exceeds size, it sets neither and
// returns an [ImplausibleError].
func (g *GPU) SetMemory(used, size uint64) error {
	g.Have &^= GPUMemory | GPUSize
	if err := CheckRange("memory", g.Device, float64(used), 0, float64(size)); err != nil {
		return err
	}
	g.Memory, g.MemorySize = used, size
	g.Have |= GPUMemory | GPUSize
	return nil
}

// GPUUse is the use of one device by one process. If there are several records for a process and device, their amounts
// must be summed.
type GPUUse struct {
	PID    int32
	Device string // as in GPU.Device
	Have   GPUFields
	// Busy is the time in seconds that the device computed for the process since the previous
	// reading. Memory is the device memory that it holds now, in bytes.
	Busy   float64
	Memory uint64
}

// GPUPass is one reading of the devices of a source. Its memory is reused.
type GPUPass struct {
	Devices []GPU
	Uses    []GPUUse
}

// Reset empties p and keeps its memory.
func (p *GPUPass) Reset() { p.Devices, p.Uses = p.Devices[:0], p.Uses[:0] }

// GPUSource reads GPUs and the processes that use them. If a [Sensor] implements it, the agent calls ReadGPU at each
// internal tick and charges the use to workloads.
//
// ReadGPU appends to p. It omits a device that cannot be read, and the error names the device and the cause. The rest
// of p is valid. The next successful reading includes the activity of the meantime in Busy, as far as the hardware
// remembers it. ReadGPU is called from one goroutine. It does not wait for a device that hangs, and does not allocate
// for known devices and processes.
type GPUSource interface {
	Name() string
	ReadGPU(p *GPUPass) error
	Close() error
}

// GPUFinder is a [GPUSource] that searches for the processes that use its devices. The agent calls FindGPU before ReadGPU, in the same
// goroutine. opened lists the device files that were opened since the previous reading, if that is known.
type GPUFinder interface {
	FindGPU(opened []Open)
}

// GPUStarter is a [GPUSource] that reads in the background. The agent calls StartGPU at the start of each tick, in the
// goroutine of ReadGPU. ReadGPU then returns the data received so far, and later data is returned at the next tick.
// Without new data it returns the last reading with a Span of 0. now reports that an export follows this tick, and soon
// that an export follows the next tick.
type GPUStarter interface {
	StartGPU(soon, now bool)
}
