package simulate

import (
	"fmt"
	"math"
	"strconv"

	"reckon/metric"
	"reckon/sensor"
)

// gpuMemory is the memory of a device, bytes.
const gpuMemory = 80 << 30

// gpuState is a GPU of a simulated machine.
type gpuState struct {
	joules float64
	busy   float64 // seconds since it was read last
	span   float64
	memory uint64
	uses   []sensor.GPUUse
	total  float64 // busy seconds since the machine booted
	step   float64 // busy seconds in this step
	share  float64 // of the last step in which it computed
	warmth float64 // the same, smoothed over a minute
}

// Watts of a device at rest, and beyond that at work.
const (
	gpuIdle = 55.0
	gpuWork = 260.0
)

// export appends a driver's report about a device.
func (g *gpuState) export(rows *sensor.GPUSeries, b *metric.Batch) {
	clock := 345e6
	if g.share > 0 {
		clock = 1980e6
	}
	for _, x := range []struct {
		figure sensor.GPUFigure
		value  float64
	}{
		{sensor.GPUEnergyJoules, g.joules}, {sensor.GPUPowerWatts, gpuIdle + gpuWork*g.share}, {sensor.GPUPowerLimitWatts, 350},
		{sensor.GPUTemperatureCore, 31 + 38*g.warmth}, {sensor.GPUTemperatureMemory, 38 + 40*g.warmth},
		{sensor.GPUClockGraphics, clock}, {sensor.GPUClockCompute, clock}, {sensor.GPUClockMemory, 2619e6},
		{sensor.GPUErrorsCorrected, 0}, {sensor.GPUErrorsUncorrected, 0}, {sensor.GPUThrottledPower, 0}, {sensor.GPUThrottledThermal, 0},
	} {
		rows.Add(b, x.figure, x.value)
	}
}

// beginStep begins a step.
func (g *gpuState) beginStep() {
	g.memory, g.step = 0, 0
	for i := range g.uses {
		g.uses[i].Memory = 0
	}
}

// addUse adds the use of a process in a step.
func (g *gpuState) addUse(pid int32, busy float64, memory uint64) {
	g.step += busy
	g.memory += memory
	for i := range g.uses {
		if u := &g.uses[i]; u.PID == pid {
			u.Busy, u.Memory = u.Busy+busy, memory
			return
		}
	}
	g.uses = append(g.uses, sensor.GPUUse{PID: pid, Have: sensor.GPUBusy | sensor.GPUMemory, Busy: busy, Memory: memory})
}

// nodeFigures is the hardware of the machine apart from its processes: the figures of node_exporter, meters and GPUs.
type nodeFigures struct {
	node       *Node
	joules     [2]float64 // package, memory
	load       float64
	pressure   [3]float64 // seconds that some task waited for a processor, memory, storage
	disk, net  [2]float64 // read and written, received and sent; bytes
	rows       map[*metric.Desc][]*metric.Series
	meterRows  sensor.MeterSeries
	meters     []sensor.Meter
	gpuRows    []*sensor.GPUSeries
	deviceName []string
}

func gauge(name, help string, unit metric.Unit, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Gauge, Unit: unit, Labels: labels}
}

func counter(name, help string, unit metric.Unit, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Counter, Unit: unit, Labels: labels}
}

// The figures of the machine, under node_exporter's names.
var (
	nodeCPU     = counter("node_cpu_seconds_total", "Seconds the CPUs spent in each mode.", metric.Seconds, "cpu", "mode")
	nodeMemory  = gauge("node_memory_MemTotal_bytes", "Memory information field MemTotal_bytes.", metric.Bytes)
	nodeFree    = gauge("node_memory_MemAvailable_bytes", "Memory information field MemAvailable_bytes.", metric.Bytes)
	nodeLoad    = gauge("node_load1", "1m load average.", metric.None)
	nodeRunning = gauge("node_procs_running", "Number of processes in runnable state.", metric.None)
	nodeWaitCPU = counter("node_pressure_cpu_waiting_seconds_total", "Total time in seconds that processes have waited for CPU time",
		metric.Seconds)
	nodeWaitMem = counter("node_pressure_memory_waiting_seconds_total", "Total time in seconds that processes have waited for memory",
		metric.Seconds)
	nodeWaitIO = counter("node_pressure_io_waiting_seconds_total",
		"Total time in seconds that processes have waited due to IO congestion", metric.Seconds)
	nodeRead     = counter("node_disk_read_bytes_total", "The total number of bytes read successfully.", metric.Bytes, "device")
	nodeWritten  = counter("node_disk_written_bytes_total", "The total number of bytes written successfully.", metric.Bytes, "device")
	nodeReceived = counter("node_network_receive_bytes_total", "Network device statistic receive_bytes.", metric.Bytes, "device")
	nodeSent     = counter("node_network_transmit_bytes_total", "Network device statistic transmit_bytes.", metric.Bytes, "device")
	nodeSpeed    = gauge("node_network_speed_bytes", "Network device property: speed_bytes.", metric.Bytes, "device")
	nodeBoot     = gauge("node_boot_time_seconds", "Node boot time, in unixtime.", metric.Seconds)
	nodeUname    = gauge("node_uname_info", "Labeled system information as provided by the uname system call.", metric.None, "sysname",
		"release", "machine", "nodename")
	nodeOS = gauge("node_os_info", "A metric with a constant '1' value labeled by what the distribution says of itself.", metric.None, "id",
		"pretty_name")
)

func newFigures(n *Node) nodeFigures {
	return nodeFigures{node: n, rows: map[*metric.Desc][]*metric.Series{}}
}

// storageSpeed is the rate of reading and writing, in bytes per second, at which some task of a node always waits.
const storageSpeed = 800e6

// advance computes the state of the hardware after a step.
func (f *nodeFigures) advance(n *Node, busy, waiting, span float64) {
	cores := float64(n.site.Cores)
	share := min(busy/cores, 1)
	f.joules[0] += span * cores * (1.6 + 4.2*math.Pow(share, 0.85))
	held := 1 - float64(n.machine.MemoryAvailable)/float64(n.spec.memory)
	f.joules[1] += span * cores * (0.15 + 0.5*held*share)
	decay := math.Exp(-span / 60)
	f.load = f.load*decay + (busy+waiting)*(1-decay)
	f.pressure[0] += span * min(waiting, 1)
	f.pressure[1] += span * 0.4 * max(held-0.9, 0) / 0.1 // pages are taken back and read again
	read, write := 0.0, 0.0
	for _, g := range n.groups {
		read, write = read+g.wish.read*g.active, write+g.wish.write*g.active
	}
	for _, g := range n.groups {
		if d := g.wish.planned; d != nil {
			f.net[0], f.net[1] = f.net[0]+d.Receives*g.active, f.net[1]+d.Sends*g.active
		}
	}
	f.disk[0], f.disk[1] = f.disk[0]+read*0.2, f.disk[1]+write*0.2+span*20e3 // the rest lies on other machines
	f.pressure[2] += min(span, (read+write)/storageSpeed)
	f.net[0], f.net[1] = f.net[0]+read*0.8+span*4e3, f.net[1]+write*0.8+span*6e3
	for i := range n.gpus {
		g := &n.gpus[i]
		step := min(g.step, span)
		g.busy, g.total, g.span = g.busy+step, g.total+step, g.span+span
		g.joules += gpuIdle*span + gpuWork*step
		if span > 0 {
			g.share = step / span
			g.warmth += (g.share - g.warmth) * (1 - math.Exp(-span/60))
		}
	}
}

// Descs returns the series that Read may append.
func (n *Node) Descs() []*metric.Desc {
	return append(
		append([]*metric.Desc{nodeCPU, nodeMemory, nodeFree, nodeLoad, nodeRunning, nodeWaitCPU, nodeWaitMem, nodeWaitIO, nodeRead,
			nodeWritten, nodeReceived, nodeSent, nodeSpeed,
			nodeBoot, nodeUname, nodeOS}, sensor.MeterDescs()...), sensor.GPUDescs()...)
}

// Sensor is the hardware of the machine as a [sensor.Sensor], a [sensor.MeterSource] and a [sensor.GPUSource].
type Sensor struct{ n *Node }

// Sensor returns the hardware of the machine.
func (n *Node) Sensor() *Sensor { return &Sensor{n} }

// Name implements [sensor.Sensor].
func (*Sensor) Name() string { return "simulated-hardware" }

// Descs implements [sensor.Sensor].
func (s *Sensor) Descs() []*metric.Desc { return s.n.Descs() }

// Close implements [sensor.Sensor].
func (*Sensor) Close() error { return nil }

// Read implements [sensor.Sensor].
func (s *Sensor) Read(b *metric.Batch) error {
	n := s.n
	f := &n.figures
	f.appendCPUs(b)
	running := 0
	for _, g := range n.groups {
		for _, p := range g.procs {
			if p.State == 'R' {
				running++
			}
		}
	}
	f.appendSingle(b, nodeMemory, float64(n.spec.memory))
	f.appendSingle(b, nodeFree, float64(n.machine.MemoryAvailable))
	f.appendSingle(b, nodeLoad, math.Round(f.load*100)/100)
	f.appendSingle(b, nodeRunning, float64(running+1))
	f.appendSingle(b, nodeWaitCPU, f.pressure[0])
	f.appendSingle(b, nodeWaitMem, f.pressure[1])
	f.appendSingle(b, nodeWaitIO, f.pressure[2])
	f.appendSingle(b, nodeRead, f.disk[0], "nvme0n1")
	f.appendSingle(b, nodeWritten, f.disk[1], "nvme0n1")
	f.appendSingle(b, nodeReceived, f.net[0], "eth0")
	f.appendSingle(b, nodeSent, f.net[1], "eth0")
	if n.site.LinkSpeed > 0 {
		f.appendSingle(b, nodeSpeed, n.site.LinkSpeed, "eth0")
	}
	f.appendSingle(b, nodeBoot, float64(n.boot.Unix()))
	f.appendSingle(b, nodeUname, 1, "Linux", "6.1.0-simulated", "x86_64", n.spec.name)
	f.appendSingle(b, nodeOS, 1, "simulated", "Simulated Linux")
	f.meterRows.Append(b, f.meters)
	for i := range n.gpus {
		for len(f.gpuRows) <= i {
			d := f.device(len(f.gpuRows))
			f.gpuRows = append(f.gpuRows, sensor.NewGPUSeries(&d))
		}
		d := f.device(i)
		f.gpuRows[i].AddUsed(b, &d, n.gpus[i].total)
		n.gpus[i].export(f.gpuRows[i], b)
	}
	return nil
}

// appendSingle appends a figure with a single series.
func (f *nodeFigures) appendSingle(b *metric.Batch, d *metric.Desc, v float64, values ...string) {
	if len(f.rows[d]) == 0 {
		f.rows[d] = append(f.rows[d], metric.NewSeries(d, values...))
	}
	b.Add(f.rows[d][0], v)
}

// appendCPUs appends the time of each processor. All of them have the same load.
func (f *nodeFigures) appendCPUs(b *metric.Batch) {
	m := &f.node.machine
	rows := f.rows[nodeCPU]
	if rows == nil {
		for c := range f.node.site.Cores {
			for _, mode := range []string{"user", "system", "idle"} {
				rows = append(rows, metric.NewSeries(nodeCPU, strconv.Itoa(c), mode))
			}
		}
		f.rows[nodeCPU] = rows
	}
	each := 1e9 * float64(f.node.site.Cores)
	modes := [3]float64{float64(m.User) / each, float64(m.System) / each, float64(m.Idle) / each}
	for i, s := range rows {
		// According to the kernel it: in hundredths.
		b.Add(s, math.Floor(modes[i%3]*100)/100)
	}
}

// ReadMeters implements [sensor.MeterSource].
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	f := &s.n.figures
	dst = append(dst, sensor.Meter{Domain: sensor.DomainPackage, Zone: "0", Joules: f.joules[0], HasJoules: true},
		sensor.Meter{Domain: sensor.DomainDRAM, Zone: "0", Joules: f.joules[1], HasJoules: true})
	for i := range s.n.gpus {
		dst = append(dst, sensor.Meter{Domain: sensor.DomainGPU, Zone: f.name(i), Joules: s.n.gpus[i].joules, HasJoules: true})
	}
	f.meters = append(f.meters[:0], dst...)
	return dst, nil
}

// name returns the name of a device.
func (f *nodeFigures) name(i int) string {
	for len(f.deviceName) <= i {
		f.deviceName = append(f.deviceName, fmt.Sprintf("GPU-%s-%d", f.node.spec.name, len(f.deviceName)))
	}
	return f.deviceName[i]
}

func (f *nodeFigures) device(i int) sensor.GPU {
	g := &f.node.gpus[i]
	return sensor.GPU{Vendor: "nvidia", Device: f.name(i), Model: "Simulated 80GB", Driver: "simulated", Index: i,
		Have: sensor.GPUBusy | sensor.GPUMemory | sensor.GPUSize, Span: g.span, Busy: g.busy, Memory: g.memory, MemorySize: gpuMemory}
}

// ReadGPU implements [sensor.GPUSource].
func (s *Sensor) ReadGPU(p *sensor.GPUPass) error {
	for i := range s.n.gpus {
		g := &s.n.gpus[i]
		p.Devices = append(p.Devices, s.n.figures.device(i))
		kept := g.uses[:0]
		for _, u := range g.uses {
			u.Device = s.n.figures.name(i)
			if u.Busy > 0 || u.Memory > 0 {
				p.Uses = append(p.Uses, u)
			}
			if u.Busy = 0; u.Memory > 0 {
				kept = append(kept, u)
			}
		}
		g.uses, g.busy, g.span = kept, 0, 0
	}
	return nil
}
