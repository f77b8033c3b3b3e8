package tegra

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// gpuHolders finds the processes that have the GPU open. The memory driver of Jetson Linux lists its clients and their
// memory in nvmap/iovmm/clients of debugfs (for root, L4T 21 to 36). The open files of a process (/proc/PID/fd) show
// whether it has a GPU context, or only memory for cameras and displays.
type gpuHolders struct {
	proc    string
	clients *os.File // nil if it is not readable
	buf     []byte
	memory  map[int32]uint64
	context map[int32]bool
	looked  time.Time
	denied  bool // files of other users' processes were unreadable
}

// scanInterval is the interval at which the open files of processes are scanned.
const scanInterval = 5 * time.Second

// maxClientBytes is the maximum size of the list in bytes, some thousand clients.
const maxClientBytes = 1 << 20

func openHolders(root string) *gpuHolders {
	h := &gpuHolders{proc: sysfs.Path(root, "proc"), buf: make([]byte, 0, 16<<10),
		memory: make(map[int32]uint64), context: make(map[int32]bool)}
	h.clients, _ = os.Open(sysfs.Path(root, "sys/kernel/debug/nvmap/iovmm/clients"))
	return h
}

func (h *gpuHolders) close() error {
	if h.clients == nil {
		return nil
	}
	return h.clients.Close()
}

// appendUses appends a use for every process that has the GPU open.
func (h *gpuHolders) appendUses(p *sensor.GPUPass, now time.Time) error {
	clear(h.memory)
	var err error
	if h.clients != nil {
		if err = h.readClients(); err != nil {
			clear(h.memory)
		}
	}
	if now.Sub(h.looked) >= scanInterval || now.Before(h.looked) {
		h.scanFiles()
		h.looked = now
	}
	listed := h.clients != nil && err == nil
	for pid, bytes := range h.memory {
		if h.context[pid] || h.denied {
			p.Uses = append(p.Uses, sensor.GPUUse{PID: pid, Device: Device, Have: sensor.GPUMemory, Memory: bytes})
		}
	}
	for pid := range h.context {
		if _, done := h.memory[pid]; done {
			continue
		}
		u := sensor.GPUUse{PID: pid, Device: Device}
		if listed { // it has a context and no memory yet
			u.Have = sensor.GPUMemory
		}
		p.Uses = append(p.Uses, u)
	}
	return err
}

func (h *gpuHolders) readClients() error {
	h.buf = h.buf[:0]
	for len(h.buf) < maxClientBytes {
		if len(h.buf) == cap(h.buf) {
			h.buf = append(h.buf, 0)[:len(h.buf)]
		}
		n, err := h.clients.ReadAt(h.buf[len(h.buf):cap(h.buf)], int64(len(h.buf)))
		h.buf = h.buf[:len(h.buf)+n]
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			break
		}
		if err != nil {
			return err
		}
	}
	parseClients(h.buf, h.memory)
	return nil
}

// parseClients parses lines such as "user python3 4711 2048K" and sets memory, in bytes by process id. A name may
// contain spaces, so the id and the size are the last two words. The header and the line of totals are skipped, because
// they have no process id.
func parseClients(text []byte, memory map[int32]uint64) {
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		rest, size := cutLastWord(line)
		rest, id := cutLastWord(rest)
		if len(bytes.TrimSpace(rest)) == 0 {
			continue // too few columns
		}
		pid, ok := sysfs.Number(id)
		bytes, fine := parseClientBytes(size)
		if ok && fine && pid > 0 && pid <= 1<<22 && bytes < 1<<50 {
			memory[int32(pid)] += bytes
		}
	}
}

func cutLastWord(b []byte) (rest, word []byte) {
	b = bytes.TrimRight(b, " \t\r")
	i := bytes.LastIndexAny(b, " \t")
	return b[:i+1], b[i+1:]
}

// parseClientBytes reads 2048K, 3M or a plain number of bytes.
func parseClientBytes(b []byte) (bytes uint64, ok bool) {
	unit := uint64(1)
	if n := len(b); n > 1 {
		switch b[n-1] {
		case 'K':
			unit, b = 1<<10, b[:n-1]
		case 'M':
			unit, b = 1<<20, b[:n-1]
		}
	}
	v, ok := sysfs.Number(b)
	if !ok || v < 0 || uint64(v) > 1<<50/unit {
		return 0, false
	}
	return uint64(v) * unit, true
}

// scanFiles scans the open files of the processes that hold GPU memory, or of all processes if that list is unavailable.
func (h *gpuHolders) scanFiles() {
	clear(h.context)
	h.denied = false
	if h.clients != nil && len(h.memory) > 0 {
		for pid := range h.memory {
			h.scanProcess(pid)
		}
		return
	}
	dirs, err := os.ReadDir(h.proc)
	if err != nil {
		return
	}
	for _, d := range dirs {
		if pid, err := strconv.ParseInt(d.Name(), 10, 32); err == nil {
			h.scanProcess(int32(pid))
		}
	}
}

func (h *gpuHolders) scanProcess(pid int32) {
	dir := filepath.Join(h.proc, strconv.Itoa(int(pid)), "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		h.denied = h.denied || errors.Is(err, fs.ErrPermission)
		return
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && isGPUContext(to) {
			h.context[pid] = true
			return
		}
	}
}

// isGPUContext reports whether an open file is a channel or an address space of the GPU. to is the target of its link in
// /proc/PID/fd. It is an nvgpu device (/dev/nvhost-gpu and nvhost-as-gpu until L4T 32, later /dev/nvgpu), or an
// anonymous file that such a device returns.
func isGPUContext(to string) bool {
	switch {
	case strings.HasPrefix(to, "/dev/nvgpu/"):
		return !strings.HasSuffix(to, "/ctrl") && !strings.HasSuffix(to, "/power")
	case strings.HasPrefix(to, "/dev/nvhost-"):
		return strings.HasSuffix(to, "-gpu") && to != "/dev/nvhost-ctrl-gpu"
	}
	return strings.HasPrefix(to, "anon_inode:nvgpu-") || strings.HasPrefix(to, "anon_inode:nvhost-") && strings.Contains(to, "gpu")
}
