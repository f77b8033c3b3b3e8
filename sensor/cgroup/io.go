package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"reckon/internal/sysfs"
)

// device is the number of a block device, major and minor.
type device struct{ major, minor uint32 }

// deviceLayer is the position of a block device in a stack of devices.
type deviceLayer uint8

const (
	layerBottom  deviceLayer = iota // hardware, or nothing below it that we can see
	layerMiddle                     // has devices below and above it
	layerTop                        // has devices below it only: a volume with a file system
	layerIgnored                    // in memory or backed by a file: its data is counted elsewhere
)

// ioTraffic sums the bytes read and written by a cgroup, for each layer of block devices. The kernel counts a request to
// a stacked device (device-mapper, md) and counts it again at each device below. The traffic of the cgroup is therefore
// the larger sum. This is usually the bottom layer. It is the top layer if a layer such as encryption submits requests
// outside the cgroup.
type ioTraffic struct {
	bottomRead, bottomWrite uint64
	topRead, topWrite       uint64
}

func (t *ioTraffic) addLayer(at deviceLayer, read, write uint64) {
	switch at {
	case layerBottom:
		t.bottomRead += read
		t.bottomWrite += write
	case layerTop:
		t.topRead += read
		t.topWrite += write
	}
}

func (t *ioTraffic) total() (read, write uint64) {
	return max(t.bottomRead, t.topRead), max(t.bottomWrite, t.topWrite)
}

// parseDevice reads "MAJ:MIN" at the start of a line.
func parseDevice(line []byte) (d device, rest []byte, ok bool) {
	i := bytes.IndexByte(line, ' ')
	if i < 0 {
		return d, nil, false
	}
	colon := bytes.IndexByte(line[:i], ':')
	if colon < 0 {
		return d, nil, false
	}
	major, ok1 := parseNumber(line[:colon])
	minor, ok2 := parseNumber(line[colon+1 : i])
	return device{uint32(major), uint32(minor)}, line[i+1:], ok1 && ok2
}

// parseIOStat reads io.stat: "8:0 rbytes=1 wbytes=2 rios=3 ...", a line per device.
func parseIOStat(b []byte, t *ioTraffic, layerOf func(device) deviceLayer) {
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		d, rest, ok := parseDevice(l)
		if !ok {
			continue
		}
		var read, write uint64
		for len(rest) > 0 {
			word := rest
			if i := bytes.IndexByte(rest, ' '); i >= 0 {
				word, rest = rest[:i], rest[i+1:]
			} else {
				rest = nil
			}
			if v, ok := bytes.CutPrefix(word, []byte("rbytes=")); ok {
				read, _ = parseNumber(v)
			} else if v, ok := bytes.CutPrefix(word, []byte("wbytes=")); ok {
				write, _ = parseNumber(v)
			}
		}
		t.addLayer(layerOf(d), read, write)
	}
}

// parseBlkio parses blkio.throttle.io_service_bytes, which has lines such as "8:0 Read 1" and ends
// with a line "Total". It returns false if no device has a line: recent kernels (seen with 6.18)
// count nothing and write "Total 0" until a limit is set on the device.
func parseBlkio(b []byte, t *ioTraffic, layerOf func(device) deviceLayer) (ok bool) {
	counted, whole := false, false
	for line := b; len(line) > 0; {
		var l []byte
		l, line = sysfs.Line(line)
		if bytes.HasPrefix(l, []byte("Total ")) {
			whole = true
			continue
		}
		d, rest, isDevice := parseDevice(l)
		if !isDevice {
			continue
		}
		key, n, isPair := splitPair(rest)
		if !isPair {
			continue
		}
		switch string(key) {
		case "Read":
			t.addLayer(layerOf(d), n, 0)
			counted = true
		case "Write":
			t.addLayer(layerOf(d), 0, n)
			counted = true
		}
	}
	return counted && whole
}

// maxDevices bounds the memory of [deviceLayers].
const maxDevices = 4096

// deviceLayers caches the layer of each block device while the device exists. If another device is later stacked on a cached
// device, the cached device stays in the top layer until the agent restarts. That can make the sum of the top layer too
// large.
type deviceLayers struct {
	root  string
	known map[device]deviceLayer
	look  func(device) deviceLayer // d.layerOf, kept so that handing it on allocates nothing
}

func newDevices(root string) *deviceLayers {
	d := &deviceLayers{root: root, known: make(map[device]deviceLayer)}
	d.look = d.layerOf
	return d
}

func (d *deviceLayers) layerOf(dev device) deviceLayer {
	if at, ok := d.known[dev]; ok {
		return at
	}
	if len(d.known) >= maxDevices {
		clear(d.known)
	}
	at := d.lookUpLayer(dev)
	d.known[dev] = at
	return at
}

// lookUpLayer determines the layer of a device from /sys/dev/block (Documentation/ABI/stable/sysfs-block).
func (d *deviceLayers) lookUpLayer(dev device) deviceLayer {
	const ramdisk, loop = 1, 7
	if dev.major == ramdisk || dev.major == loop {
		return layerIgnored
	}
	dir := filepath.Join(d.root, "sys/dev/block", fmt.Sprintf("%d:%d", dev.major, dev.minor))
	if target, err := os.Readlink(dir); err == nil && strings.HasPrefix(filepath.Base(target), "zram") {
		return layerIgnored
	}
	below, err := os.ReadDir(filepath.Join(dir, "slaves"))
	if err != nil || len(below) == 0 {
		return layerBottom
	}
	if above, err := os.ReadDir(filepath.Join(dir, "holders")); err == nil && len(above) > 0 {
		return layerMiddle
	}
	return layerTop
}
