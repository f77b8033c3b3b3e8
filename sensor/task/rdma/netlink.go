package rdma

import (
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// From include/uapi/rdma/rdma_netlink.h.
const (
	clientDevices = 5 // RDMA_NL_NLDEV
	cmdDevices    = clientDevices<<10 + 1
	cmdQueuePairs = clientDevices<<10 + 10

	attrIndex  = 1
	attrName   = 2
	attrQPs    = 19
	attrQP     = 20
	attrType   = 26
	attrPID    = 28
	attrKernel = 29

	typeSMI, typeGSI = 0, 1 // queue pairs of subnet management, enum ib_qp_type

	headerSize  = 16
	attrHeader  = 4
	attrMask    = 0x1fff // flags are above: nested, byte order, mandatory
	noIndex     = ^uint32(0)
	maxResponse = 16 << 20
)

var errTruncated = errors.New("the answer of the kernel is cut off")

// adapter is the kernel's number of a device.
type adapter struct {
	index uint32
	name  string
}

// dumpRequest builds a dump request. It covers one device unless its index is noIndex.
func dumpRequest(cmd uint16, index uint32) []byte {
	e := binary.NativeEndian
	b := make([]byte, headerSize, headerSize+attrHeader+4)
	if index != noIndex {
		b = e.AppendUint16(b, attrHeader+4)
		b = e.AppendUint16(b, attrIndex)
		b = e.AppendUint32(b, index)
	}
	e.PutUint32(b, uint32(len(b)))
	e.PutUint16(b[4:], cmd)
	e.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	return b
}

// requestDump sends a request and returns the messages of its answer up to the last.
func (s *Source) requestDump(request []byte) (all []byte, err error) {
	if err := unix.Sendto(s.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	for len(all) < maxResponse {
		n, err := unix.Read(s.fd, s.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		}
		all = append(all, s.buf[:n]...)
		if isDumpEnded(s.buf[:n]) {
			return all, nil
		}
	}
	return nil, errTruncated
}

// isDumpEnded reports whether the last message of a dump, or an error, is among messages.
func isDumpEnded(b []byte) bool {
	for len(b) >= headerSize {
		size, kind := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:])
		if kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR || size < headerSize {
			return true
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false
}

// eachMessage calls f with the body of every message of a dump. It fails if the kernel reports an error or the end is missing.
func eachMessage(b []byte, f func(body []byte)) error {
	for len(b) >= headerSize {
		size, kind := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:])
		if size < headerSize || size > len(b) {
			return errTruncated
		}
		body := b[headerSize:size]
		switch kind {
		case unix.NLMSG_DONE:
			return nil
		case unix.NLMSG_ERROR:
			if len(body) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(body)); code != 0 {
					return unix.Errno(-code)
				}
			}
			return errTruncated
		case cmdDevices, cmdQueuePairs:
			f(body)
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return errTruncated
}

// eachAttribute calls f for each attribute that is whole.
func eachAttribute(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= attrHeader {
		size := int(binary.NativeEndian.Uint16(b))
		if size < attrHeader || size > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&attrMask, b[attrHeader:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}

// parseDevice reads a message of RDMA_NLDEV_CMD_GET.
func parseDevice(body []byte) (d adapter, ok bool) {
	eachAttribute(body, func(kind uint16, v []byte) {
		switch {
		case kind == attrIndex && len(v) == 4:
			d.index, ok = binary.NativeEndian.Uint32(v), true
		case kind == attrName:
			d.name = strings.TrimRight(string(v), "\x00")
		}
	})
	return d, ok && d.name != ""
}

// parseQueuePairs reads a message of RDMA_NLDEV_CMD_RES_QP_GET.
func parseQueuePairs(body []byte, l *sensor.Link) {
	eachAttribute(body, func(kind uint16, list []byte) {
		if kind != attrQPs {
			return
		}
		eachAttribute(list, func(kind uint16, one []byte) {
			if kind == attrQP {
				parseQueuePair(one, l)
			}
		})
	})
}

func parseQueuePair(message []byte, l *sensor.Link) {
	var pid uint32
	management, kernel := false, false
	eachAttribute(message, func(kind uint16, v []byte) {
		switch {
		case kind == attrPID && len(v) == 4:
			pid = binary.NativeEndian.Uint32(v)
		case kind == attrKernel:
			kernel = true
		case kind == attrType && len(v) == 1:
			management = v[0] == typeSMI || v[0] == typeGSI
		}
	})
	switch {
	case kernel && management:
	case kernel || pid == 0 || pid > 1<<30:
		l.Others = true
	default:
		l.Users = append(l.Users, int32(pid))
	}
}
