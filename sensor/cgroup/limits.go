package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// maxLimitedDevices is the maximum number of devices with limits that are read for a control group.
const maxLimitedDevices = 16

// addLimitFiles adds the files with limits on block devices to the files that are read, for both versions.
func (r *Reader) addLimitFiles() {
	r.v2 = append(r.v2, fileSource{names: []string{"io.max\x00"}, rare: true, parse: parseIOMax})
	for direction, word := range [2]string{"read", "write"} {
		r.v1 = append(r.v1, fileSource{controller: "blkio", rare: true, names: []string{"blkio.throttle." + word + "_bps_device\x00"},
			parse: func(b []byte, r *reading) {
				parseLimits(b, r, func(l *sensor.IOLimit) *uint64 { return &l.Bytes[direction] })
			}},
			fileSource{controller: "blkio", rare: true, names: []string{"blkio.throttle." + word + "_iops_device\x00"},
				parse: func(b []byte, r *reading) {
					parseLimits(b, r, func(l *sensor.IOLimit) *uint64 { return &l.Operations[direction] })
				}})
	}
}

// parseIOMax reads io.max: "8:16 rbps=2097152 wbps=max riops=max wiops=120", a line per device that has a limit.
func parseIOMax(b []byte, r *reading) {
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		d, rest, ok := parseDevice(l)
		if !ok {
			continue
		}
		for word := rest; len(word) > 0; {
			var w []byte
			w, word, _ = bytes.Cut(word, []byte(" "))
			key, value, _ := bytes.Cut(w, []byte("="))
			n, isNumber := parseNumber(value) // else "max"
			limit := r.limitFor(d, isNumber)
			switch {
			case limit == nil:
			case string(key) == "rbps":
				limit.Bytes[0] = n
			case string(key) == "wbps":
				limit.Bytes[1] = n
			case string(key) == "riops":
				limit.Operations[0] = n
			case string(key) == "wiops":
				limit.Operations[1] = n
			}
		}
	}
}

// parseLimits reads blkio.throttle.read_bps_device and its like: "8:16 2097152", a line per device that has a limit.
func parseLimits(b []byte, r *reading, field func(*sensor.IOLimit) *uint64) {
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		d, rest, ok := parseDevice(l)
		n, isNumber := parseNumber(rest)
		if limit := r.limitFor(d, ok && isNumber); limit != nil {
			*field(limit) = n
		}
	}
}

// limitFor returns the entry of a device. It returns nil if no limit is set or there is no room.
func (r *reading) limitFor(d device, wanted bool) *sensor.IOLimit {
	if !wanted {
		return nil
	}
	name := r.devices.deviceName(d)
	if r.IOLimits == nil {
		r.IOLimits = new([]sensor.IOLimit)
		r.Have |= sensor.CgroupIOLimits
	}
	for i := range *r.IOLimits {
		if l := &(*r.IOLimits)[i]; l.Device == name {
			return l
		}
	}
	if len(*r.IOLimits) >= maxLimitedDevices {
		return nil
	}
	*r.IOLimits = append(*r.IOLimits, sensor.IOLimit{Device: name})
	return &(*r.IOLimits)[len(*r.IOLimits)-1]
}

// deviceName returns the name of a device in /sys/block, or MAJ:MIN if the device is gone.
func (d *deviceLayers) deviceName(dev device) string {
	number := fmt.Sprintf("%d:%d", dev.major, dev.minor)
	if target, err := os.Readlink(filepath.Join(d.root, "sys/dev/block", number)); err == nil {
		return filepath.Base(target)
	}
	return number
}
