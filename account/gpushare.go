package account

// GPUShare is what one part used of one device since the previous tick, as the agent
// reports it to the ledger for the split of the device's energy. A part has at most one share
// of a device, and no share of a device that it has not open.
type GPUShare struct {
	Part *Part
	// Device is the zone of the device's meter ([sensor.Meter].Zone with the domain
	// gpu): its uuid or PCI address.
	Device string
	// Busy is for how many seconds the device computed for the part; HasBusy says that
	// this is known. Memory is the device memory it held, in bytes; HasMemory likewise.
	Busy, Memory       float64
	HasBusy, HasMemory bool
}
