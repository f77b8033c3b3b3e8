package taskstats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// From include/uapi/linux/taskstats.h and genetlink.h.
const (
	familyName = "TASKSTATS"

	cmdGet             = 1
	cmdNew             = 2
	attrPID            = 1 // of cmdGet
	attrRegisterCPUs   = 3
	typeStats          = 3
	typeAggrPID        = 4
	typeAggrTGID       = 5
	nestedMask         = 0x3fff // NLA_F_NESTED and NLA_F_NET_BYTEORDER are flags
	nlmsgHeader        = 16
	genlHeader         = 4
	attrHeader         = 4
	controlFamilyID    = 1
	controlFamilyName  = 2
	controlGetFamily   = 3
	controlFamily      = 16 // GENL_ID_CTRL
	controlNewFamily   = 1
	requestVersion     = 1
	requestFlags       = unix.NLM_F_REQUEST
	requestFlagsAndAck = unix.NLM_F_REQUEST | unix.NLM_F_ACK
)

// eachAttribute walks through netlink attributes and calls f for each that is whole.
func eachAttribute(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= attrHeader {
		size := int(binary.NativeEndian.Uint16(b))
		if size < attrHeader || size > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&nestedMask, b[attrHeader:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}

// nextMessage cuts the first netlink message off b. ok is false if there is no complete one.
func nextMessage(b []byte) (kind uint16, body, rest []byte, ok bool) {
	if len(b) < nlmsgHeader {
		return 0, nil, nil, false
	}
	size := int(binary.NativeEndian.Uint32(b))
	if size < nlmsgHeader || size > len(b) {
		return 0, nil, nil, false
	}
	return binary.NativeEndian.Uint16(b[4:]), b[nlmsgHeader:size], b[min((size+3)&^3, len(b)):], true
}

// buildRequest builds one generic netlink message with one attribute.
func buildRequest(family, flags uint16, cmd byte, attr uint16, value []byte) []byte {
	size := attrHeader + len(value)
	b := make([]byte, nlmsgHeader+genlHeader+(size+3)&^3)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], family)
	binary.NativeEndian.PutUint16(b[6:], flags)
	b[nlmsgHeader], b[nlmsgHeader+1] = cmd, requestVersion
	a := b[nlmsgHeader+genlHeader:]
	binary.NativeEndian.PutUint16(a, uint16(size))
	binary.NativeEndian.PutUint16(a[2:], attr)
	copy(a[attrHeader:], value)
	return b
}

// request sends a netlink message and returns the first answer of the message type wanted, or nil for an
// acknowledgement. If the answer has an error number, it returns that as an error.
func (s *Source) request(message []byte, wanted uint16) ([]byte, error) {
	if err := unix.Sendto(s.fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	for {
		n, err := unix.Read(s.fd, s.buf)
		if err == unix.EINTR || err == unix.ENOBUFS {
			continue
		}
		if err != nil {
			return nil, err
		}
		for b := s.buf[:n]; ; {
			kind, body, rest, ok := nextMessage(b)
			if !ok {
				break
			}
			switch {
			case kind == unix.NLMSG_ERROR && len(body) >= 4:
				if code := int32(binary.NativeEndian.Uint32(body)); code != 0 {
					return nil, unix.Errno(-code)
				}
				return nil, nil
			case kind == wanted && len(body) >= genlHeader:
				return body, nil
			}
			b = rest
		}
	}
}

// findFamily requests the number of the family TASKSTATS.
func (s *Source) findFamily() error {
	body, err := s.request(buildRequest(controlFamily, requestFlags, controlGetFamily, controlFamilyName, append([]byte(familyName), 0)),
		controlFamily)
	if errors.Is(err, unix.ENOENT) {
		return sensor.Unavailable("the kernel has no taskstats", "use a kernel built with CONFIG_TASKSTATS", nil)
	}
	if err != nil {
		return fmt.Errorf("ask for the netlink family %s: %w", familyName, err)
	}
	if len(body) >= genlHeader && body[0] == controlNewFamily {
		eachAttribute(body[genlHeader:], func(kind uint16, v []byte) {
			if kind == controlFamilyID && len(v) >= 2 {
				s.family = binary.NativeEndian.Uint16(v)
			}
		})
	}
	if s.family == 0 {
		return fmt.Errorf("ask for the netlink family %s: the answer names no number", familyName)
	}
	return nil
}

// probeVersion requests the record of our own process and returns the record version and layout.
func (s *Source) probeVersion() (version uint16, layout int, err error) {
	pid := uint32(unix.Getpid())
	body, err := s.request(buildRequest(s.family, requestFlags, cmdGet, attrPID, binary.NativeEndian.AppendUint32(nil, pid)), s.family)
	if err != nil {
		return 0, 0, explainDenied(err, uidMap(), lacksProcessID())
	}
	layout = -1
	if len(body) >= genlHeader {
		eachAttribute(body[genlHeader:], func(kind uint16, v []byte) {
			if kind != typeAggrPID {
				return
			}
			eachAttribute(v, func(kind uint16, v []byte) {
				if kind != typeStats || len(v) < 2 {
					return
				}
				version = binary.NativeEndian.Uint16(v)
				for _, d := range recordLayouts() {
					if layout < 0 && belongsTo(v, d, pid, uint32(unix.Getppid())) {
						layout = d
					}
				}
			})
		})
	}
	if layout < 0 {
		return 0, 0, sensor.Unavailable(fmt.Sprintf("exit records (taskstats) of version %d are laid out in an unknown way", version),
			"use the eBPF source", nil)
	}
	return version, layout, nil
}

func (s *Source) registerCPUs(cpus string) error {
	_, err := s.request(buildRequest(s.family, requestFlagsAndAck, cmdGet, attrRegisterCPUs, append([]byte(cpus), 0)), s.family)
	if err != nil {
		return explainDenied(err, uidMap(), lacksProcessID())
	}
	return nil
}

// uidMap returns the map of our user namespace, "" if it cannot be read.
func uidMap() string {
	text, _ := os.ReadFile("/proc/self/uid_map")
	return string(text)
}

// lacksProcessID reports whether the kernel is older than 5.19. In its exit records the process id is missing. The version of
// the records cannot be determined otherwise without permission.
func lacksProcessID() bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return n == 2 && (major < 5 || major == 5 && minor < 19)
}

// newer is the remedy if records name no process, because permission alone does not help.
const newer = "use Linux 5.19 or later, or the eBPF source on another kernel than 5.10"

// explainDenied explains why the kernel does not allow listening for exit records. uidMap is the text of
// /proc/PID/uid_map (user_namespaces(7)). nameless means that listening would be useless on this kernel.
func explainDenied(err error, uidMap string, nameless bool) error {
	switch {
	case nameless && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)):
		return sensor.Unavailable("no permission to receive exit records (taskstats), which name no process before Linux 5.19", newer, err)
	case errors.Is(err, unix.EPERM) && uidMap != "" && strings.Join(strings.Fields(uidMap), " ") != "0 0 4294967295":
		return sensor.Unavailable("no permission to receive exit records (taskstats) from within a user namespace",
			"run the agent as root of the machine, without a user namespace", err)
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return sensor.Unavailable("no permission to receive exit records (taskstats)", "run as root or grant CAP_NET_ADMIN", err)
	case errors.Is(err, unix.EINVAL):
		return sensor.Unavailable("exit records (taskstats) are sent in the initial user and pid namespace only",
			"run the agent in the pid namespace of the machine (hostPID)", err)
	}
	return fmt.Errorf("register for exit records: %w", err)
}
