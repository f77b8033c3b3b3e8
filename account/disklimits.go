package account

import (
	"reckon/metric"
	"reckon/sensor"
)

var (
	diskLimitBytes = metric.NewDesc("reckon_workload_disk_limit_bytes_per_second", metric.Gauge, metric.None, chargedLabels("device",
		"direction"),
		"Throughput limit of the workload's control group (io.max, blkio.throttle), by disk and direction. Absent where there is no "+
			"limit.")
	diskLimitOperations = metric.NewDesc("reckon_workload_disk_limit_operations_per_second", metric.Gauge, metric.None,
		chargedLabels("device", "direction"),
		"Limit of the workload's control group on operations per second (io.max, blkio.throttle), by disk and direction. Absent "+
			"where there is no limit.")
)

// diskLimit holds the series of the limits on one device.
type diskLimit struct {
	device string
	rows   [2][2]*metric.Series // by direction, of bytes and of operations
}

// exportDiskLimits appends the limits of the control group of the part on disks.
func (p *Part) exportDiskLimits(b *metric.Batch) {
	if p.cg.IOLimits == nil {
		return
	}
	for i := range *p.cg.IOLimits {
		limit := &(*p.cg.IOLimits)[i]
		r := p.diskLimit(limit.Device)
		for direction, word := range [2]string{sensor.Receive: "read", sensor.Transmit: "write"} {
			if n := limit.Bytes[direction]; n > 0 {
				b.Add(p.seriesOnce(&r.rows[direction][0], diskLimitBytes, limit.Device, word), float64(n))
			}
			if n := limit.Operations[direction]; n > 0 {
				b.Add(p.seriesOnce(&r.rows[direction][1], diskLimitOperations, limit.Device, word), float64(n))
			}
		}
	}
}

// diskLimit returns the series of a device.
func (p *Part) diskLimit(device string) *diskLimit {
	for _, r := range p.rows.limits {
		if r.device == device {
			return r
		}
	}
	r := &diskLimit{device: device}
	p.rows.limits = append(p.rows.limits, r)
	return r
}
