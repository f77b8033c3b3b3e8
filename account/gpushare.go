package account

// GPUShare is the use of one device by one part since the previous tick, as the agent reports
// it to the ledger for the split of the device's energy. A part has at most one share of a
// device, and no share of a device that it does not have open.
type GPUShare struct {
	Part *Part
	// Device is the zone of the device's meter ([sensor.Meter].Zone with the domain
	// gpu): its uuid or PCI address.
	Device string
	// Busy is the time, in seconds, for which the device computed for the part; HasBusy
	// reports whether it is known. Memory is the device memory that the part held, in
	// bytes; HasMemory reports whether it is known.
	Busy, Memory       float64
	HasBusy, HasMemory bool
}
