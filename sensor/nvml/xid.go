package nvml

// xidMeanings maps the most common Xid errors to their causes (https://docs.nvidia.com/deploy/xid-errors/, "Xid errors").
var xidMeanings = map[int]string{
	8:   "the driver stopped a channel that hung",
	13:  "a program used memory or an instruction wrongly, or the device is faulty",
	31:  "a program touched memory that is not its own",
	32:  "a broken command reached the device: driver, program or bus",
	38:  "the driver's firmware failed",
	43:  "a program made the device stop its channel; the device is well",
	45:  "a program ended while the device still worked for it, often after another error",
	48:  "memory error that could not be corrected",
	61:  "the device's microcontroller stopped: reset the device",
	62:  "the device's microcontroller stopped: reset the device",
	63:  "a faulty row of memory is being replaced at the next reset",
	64:  "a faulty row of memory could not be replaced: exchange the device",
	69:  "a program used the graphics engine wrongly",
	74:  "an NVLink failed: look for the errors of its links",
	79:  "the device fell off the bus: look at power, cooling and slot, and reboot",
	92:  "many corrected memory errors in a short time",
	94:  "memory error that stayed within one program, which ended",
	95:  "memory error that was not contained: reset the device",
	109: "a switch between programs on the device took too long",
	119: "the device's system processor does not answer: reset the device",
	120: "the device's system processor failed: reset the device",
	121: "corrected error of the link between processor and device",
	140: "memory error that could not be corrected: reset the device",
	143: "the device could not be started: reset the node",
	144: "an NVLink failed",
	145: "an NVLink failed",
	149: "an NVLink failed",
	154: "the device reports what it needs to recover, such as a reset",
}

// xidMeaning returns the meaning of an Xid.
func xidMeaning(xid int) string {
	if m := xidMeanings[xid]; m != "" {
		return m
	}
	return "see the list of Xid errors of NVIDIA"
}

// watchXids enables reports of the errors of a device.
func (r *reader) watchXids(d *device) {
	if d.watched || d.noXid {
		return
	}
	switch c := r.lib.Watch(d.handle); c {
	case codeSuccess:
		d.watched = true
	case codeNotSupported, codeNoFunction, codeNoPermission:
		d.noXid = true
	}
}

// readXids reads the Xid errors since the last export. It reads a limited number, so that a device with endless errors
// does not delay the other devices.
func (r *reader) readXids() {
	for range 64 {
		e, c := r.lib.Event()
		if c != codeSuccess {
			return
		}
		if e.kind != eventXid {
			continue
		}
		uuid, c := r.lib.UUID(e.device)
		for _, d := range r.devices {
			if d.gpu.Parent == "" && (d.handle == e.device || c == codeSuccess && d.gpu.Device == uuid) {
				d.countXid(int(e.data))
				break
			}
		}
	}
}

// countXid records one error.
func (d *device) countXid(number int) {
	if d.xids == nil {
		d.xids = make(map[int]float64)
	}
	d.xids[number]++
	d.lastXid = number
}
