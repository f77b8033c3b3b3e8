package node

import (
	"regexp"
	"sync"

	"reckon/internal/sysfs"
	"reckon/metric"
)

// ignoredDisks are left out as in node_exporter: memory disks, and parts of other disks.
var ignoredDisks = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$`)
})

// sector is the unit of /proc/diskstats, in bytes, independent of the device.
const sector = 512

// diskColumns are the columns of /proc/diskstats after the name (Documentation/admin-guide/iostats.rst) and their
// units. There are 11 before kernel 4.18 and 15 before 5.5.
var diskColumns = []struct {
	desc  *metric.Desc
	scale float64
}{
	{counter("node_disk_reads_completed_total", "The total number of reads completed successfully.", metric.None, "device"), 1},
	{counter("node_disk_reads_merged_total", "The total number of reads merged.", metric.None, "device"), 1},
	{counter("node_disk_read_bytes_total", "The total number of bytes read successfully.", metric.Bytes, "device"), sector},
	{counter("node_disk_read_time_seconds_total", "The total number of seconds spent by all reads.", metric.Seconds, "device"), 1e-3},
	{counter("node_disk_writes_completed_total", "The total number of writes completed successfully.", metric.None, "device"), 1},
	{counter("node_disk_writes_merged_total", "The number of writes merged.", metric.None, "device"), 1},
	{counter("node_disk_written_bytes_total", "The total number of bytes written successfully.", metric.Bytes, "device"), sector},
	{counter("node_disk_write_time_seconds_total", "This is the total number of seconds spent by all writes.", metric.Seconds, "device"),
		1e-3},
	{gauge("node_disk_io_now", "The number of I/Os currently in progress.", metric.None, "device"), 1},
	{counter("node_disk_io_time_seconds_total", "Total seconds spent doing I/Os.", metric.Seconds, "device"), 1e-3},
	{counter("node_disk_io_time_weighted_seconds_total", "The weighted # of seconds spent doing I/Os.", metric.Seconds, "device"), 1e-3},
	{counter("node_disk_discards_completed_total", "The total number of discards completed successfully.", metric.None, "device"), 1},
	{counter("node_disk_discards_merged_total", "The total number of discards merged.", metric.None, "device"), 1},
	{counter("node_disk_discarded_sectors_total", "The total number of sectors discarded successfully.", metric.None, "device"), 1},
	{
		counter("node_disk_discard_time_seconds_total", "This is the total number of seconds spent by all discards.", metric.Seconds,
			"device"), 1e-3},
	{counter("node_disk_flush_requests_total", "The total number of flush requests completed successfully.", metric.None, "device"), 1},
	{
		counter("node_disk_flush_requests_time_seconds_total", "This is the total number of seconds spent by all flush requests.",
			metric.Seconds, "device"), 1e-3},
}

// Disk is the traffic of each block device.
type Disk struct {
	text    *kernelFile
	descs   []*metric.Desc
	devices map[string]*device
	round   uint64
}

// NewDisk opens /proc/diskstats.
func NewDisk(root string) (*Disk, error) {
	t, err := openFile(root, "proc/diskstats")
	if err != nil {
		return nil, err
	}
	d := &Disk{text: t, devices: make(map[string]*device)}
	for _, c := range diskColumns {
		d.descs = append(d.descs, c.desc)
	}
	return d, nil
}

// Name returns "disk".
func (d *Disk) Name() string { return "disk" }

// Descs lists the columns.
func (d *Disk) Descs() []*metric.Desc { return d.descs }

// Close closes the file.
func (d *Disk) Close() error { return d.text.Close() }

// Read appends every device.
func (d *Disk) Read(b *metric.Batch) error {
	t, err := d.text.read()
	if err != nil {
		return err
	}
	d.round++
	for len(t) > 0 {
		var l []byte
		l, t = sysfs.Line(t)
		name, f, n := parseDisk(l)
		if n == 0 {
			continue
		}
		dev := d.devices[string(name)]
		if dev == nil {
			dev = &device{}
			if !ignoredDisks().Match(name) {
				for _, desc := range d.descs {
					dev.series = append(dev.series, metric.NewSeries(desc, labelValue(name)))
				}
			}
			d.devices[string(name)] = dev
		}
		dev.round = d.round
		if dev.series == nil {
			continue
		}
		for i, v := range f[:n] {
			b.Add(dev.series[i], float64(v)*diskColumns[i].scale)
		}
	}
	dropUnseen(d.devices, d.round)
	return nil
}

// parseDisk parses " 254 0 vda 343738 64728 ..." and returns the number of columns, 0 for an incomplete line.
func parseDisk(l []byte) (name []byte, f [17]uint64, n int) {
	var id [2]uint64
	for i := range id {
		var w []byte
		w, l = sysfs.Field(l)
		var ok bool
		if id[i], ok = sysfs.Unsigned(w); !ok {
			return nil, f, 0
		}
	}
	name, l = sysfs.Field(l)
	n = parseNumbers(l, f[:])
	if n < 11 || len(name) == 0 {
		return nil, f, 0
	}
	return name, f, n
}
