package nvml

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/sensor"
)

// listUses updates the list of processes that have the device open, with the memory and the computing time of each.
//
// Memory comes from the lists of compute, graphics and MPS processes. If a process is in several lists, the largest
// value counts. Busy time comes from the samples of SM use per process. A MIG instance has its own lists, but no
// samples.
//
// holders is the number of processes that have the device open now or had it open at the previous reading. changed
// reports whether their set changed.
func (r *reader) listUses(d *device) (holders int, changed bool) {
	d.uses = d.uses[:0]
	d.clients = [2]bool{false, d.clients[0]}
	for kind := range processLists {
		if !d.noList[kind] {
			r.readProcessList(d, kind)
		}
	}
	d.pids, d.before = d.before[:0], d.pids
	for i := range d.uses {
		d.pids = append(d.pids, d.uses[i].PID)
	}
	holders = len(d.pids)
	for _, pid := range d.before {
		if !slices.Contains(d.pids, pid) {
			holders++
		}
	}
	return holders, holders != len(d.pids) || holders != len(d.before)
}

// mpsServer is the name, as truncated by the kernel, of the process that computes for the clients of MPS.
const mpsServer = "nvidia-cuda-mps"

// shareServer removes the MPS server from the uses of the device, because it computes only for its clients. If the
// driver reports the server's computing time instead of the clients', that of the clients is unknown. The agent then
// divides the device's time by memory.
func (r *reader) shareServer(d *device) {
	if d.clients == [2]bool{} {
		return
	}
	served := false
	d.uses = slices.DeleteFunc(d.uses, func(u sensor.GPUUse) bool {
		if r.comm(u.PID) != mpsServer {
			return false
		}
		served = served || u.Busy > 0
		return true
	})
	if !served {
		return
	}
	for i := range d.uses {
		if d.uses[i].Busy == 0 {
			d.uses[i].Have &^= sensor.GPUBusy
		}
	}
}

// readComm returns a function that reads the name of a process from the file tree below root. The
// name is empty if the process is gone.
func readComm(root string) func(pid int32) string {
	return func(pid int32) string {
		b, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(int(pid)), "comm"))
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(b), "\n")
	}
}

// readProcessList reads one of the driver's lists of processes.
func (r *reader) readProcessList(d *device, kind int) {
	if len(r.processes) == 0 {
		r.processes = make([]processInfo, 128)
	}
	n, c := r.lib.Processes(d.handle, kind, r.processes)
	for range 3 {
		if c != codeInsufficientSize || n > 1<<20 {
			break
		}
		// More processes may start meanwhile, so there is spare room.
		r.processes = make([]processInfo, max(n, len(r.processes))*3/2)
		n, c = r.lib.Processes(d.handle, kind, r.processes)
	}
	if c == codeNotSupported || c == codeNoFunction {
		d.noList[kind] = true
	}
	if c != codeSuccess {
		return
	}
	for i := range r.processes[:min(max(n, 0), len(r.processes))] {
		p := &r.processes[i]
		u := d.useFor(int32(p.pid))
		d.clients[0] = d.clients[0] || kind == listMPS && u != nil
		if u == nil || !isValid64(p.memory) || p.memory == noValue64 {
			continue
		}
		u.Memory = max(u.Memory, p.memory)
		u.Have |= sensor.GPUMemory
	}
}

// useFor returns the record of a process and creates it if needed. It returns nil for an invalid process id.
func (d *device) useFor(pid int32) *sensor.GPUUse {
	if pid <= 0 {
		return nil
	}
	for i := range d.uses { // few processes have one device open
		if d.uses[i].PID == pid {
			return &d.uses[i]
		}
	}
	d.uses = append(d.uses, sensor.GPUUse{PID: pid, Device: d.gpu.Device})
	return &d.uses[len(d.uses)-1]
}

// sampleUses adds the computing time of each process from the driver's samples. A sample is the share of the time since
// the previous sample, or since our last reading. The driver returns one sample per process, or several with different
// times. If processes computed at the same time, samples may name only one of them.
func (r *reader) sampleUses(d *device, now time.Time) {
	if len(r.uses) == 0 {
		r.uses = make([]processSample, 128)
	}
	n, c := r.lib.ProcessUse(d.handle, d.seen, r.uses)
	if c == codeInsufficientSize && n > len(r.uses) && n < 1<<20 {
		r.uses = make([]processSample, n*3/2)
		n, c = r.lib.ProcessUse(d.handle, d.seen, r.uses)
	}
	switch c {
	case codeSuccess:
	case codeNotFound: // no process used it
		n = 0
	case codeNotSupported, codeNoFunction:
		d.noUse = true
		return
	default:
		return
	}
	// The list is complete, so processes that are not in it have used nothing.
	for i := range d.uses {
		d.uses[i].Have |= sensor.GPUBusy | sensor.GPUSampled
	}
	samples := r.uses[:min(max(n, 0), len(r.uses))]
	newest := d.seen
	for i := range samples {
		newest = max(newest, samples[i].time)
	}
	floor := d.seen
	if at := uint64(now.UnixMicro()); newest < at && at-newest < uint64(time.Hour/time.Microsecond) { // the driver's clock is ours
		floor = max(floor, at-uint64(d.gpu.Span*1e6))
	}
	for i := range samples {
		s := &samples[i]
		if s.sm > 100 || s.time <= floor {
			continue
		}
		u := d.useFor(int32(s.pid))
		if u == nil {
			continue
		}
		if u.Have == 0 {
			u.Have = sensor.GPULeft
		}
		u.Have |= sensor.GPUBusy | sensor.GPUSampled
		before := floor
		for j := range samples {
			if samples[j].pid == s.pid && samples[j].time < s.time {
				before = max(before, samples[j].time)
			}
		}
		if d.gpu.Span > 0 {
			u.Busy += float64(s.sm) / 100 * min(float64(s.time-before)/1e6, d.gpu.Span)
		}
	}
	d.seen = newest
	for i := range d.uses {
		d.uses[i].Busy = min(d.uses[i].Busy, d.gpu.Span)
	}
}
