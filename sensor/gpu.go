package sensor

// GPUFields says which figures of a [GPU] or a [GPUUse] its source could read. A figure
// whose bit is not set is unknown, not zero.
type GPUFields uint8

// The figures of a device and of its use.
const (
	GPUBusy   GPUFields = 1 << iota // Busy
	GPUMemory                       // Memory
	GPUSize                         // MemorySize
)

// GPU is a graphics processor or accelerator, or a partition of one, in one reading.
type GPU struct {
	// Vendor is one lower-case word: nvidia, amd, intel.
	Vendor string
	// Device names it for good: the UUID, or the PCI address where there is none. It is
	// also the zone of the device's meter.
	Device string
	// Parent is the Device that this one is a partition of (MIG), empty for a whole one.
	Parent string
	// Partition is the number of the GPU instance of a partition (MIG), else empty.
	Partition string
	Model     string
	Driver    string // version of the driver, empty if unknown
	PCI       string // address on the PCI bus as the vendor's tools write it, empty if unknown
	Index     int    // as the vendor's tools count
	Have      GPUFields
	// Span is the time in seconds that Busy is about: since the previous reading of this
	// device, 0 at the first. Busy is for how much of it the device computed. A whole
	// device that has partitions knows no Busy where its driver does not.
	Span, Busy         float64
	Memory, MemorySize uint64 // device memory in use, and there altogether; bytes
}

// GPUUse is what one process uses of one device. What several records of a process say
// of one device is disjoint: it is added up.
type GPUUse struct {
	PID    int32
	Device string // as in GPU.Device
	Have   GPUFields
	// Busy is for how many seconds the device computed for the process since the
	// previous reading; Memory is what it holds of the device's memory now, in bytes.
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

// GPUSource reads devices and who uses them. A [Sensor] that is one as well needs
// nothing else to take part in the accounts: the agent reads it at each internal tick.
//
// ReadGPU appends to p. Where a device can not be read it is left out, the error says
// which and why, and the rest of p is valid; what it did meanwhile is in the Busy of
// the reading in which it is back, as far as the hardware remembers it. ReadGPU is
// called from one goroutine, does not wait for a device that hangs, and does not
// allocate once it knows the devices and processes.
type GPUSource interface {
	Name() string
	ReadGPU(p *GPUPass) error
	Close() error
}
