package rdma

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// The messages are constructed after drivers/infiniband/core/nldev.c of Linux 6.12: no adapter was here, and no recording was found.

func attr(kind uint16, value ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(attrHeader+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

func number(kind uint16, v uint32) []byte {
	return attr(kind, binary.NativeEndian.AppendUint32(nil, v)...)
}

func message(kind uint16, body ...[]byte) []byte {
	b := make([]byte, headerSize)
	for _, x := range body {
		b = append(b, x...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], kind)
	return b
}

func refusal(e unix.Errno) []byte {
	return message(unix.NLMSG_ERROR, binary.NativeEndian.AppendUint32(nil, uint32(-int32(e))))
}

const nested = 1 << 15

func qp(kind byte, rest ...[]byte) []byte {
	return attr(attrQP|nested, slices.Concat(append([][]byte{number(3, 1), number(21, 77), attr(attrType, kind)}, rest...)...)...)
}

var done = message(unix.NLMSG_DONE, make([]byte, 4))

// source answers from byte streams, below a tree with two adapters.
func source(t *testing.T, answers map[uint32][]byte) *Source {
	t.Helper()
	root := t.TempDir()
	for file, text := range map[string]string{
		"mlx5_0/ports/1/counters/port_rcv_data": "100\n", "mlx5_0/ports/1/counters/port_xmit_data": "7\n",
		"mlx5_0/ports/2/counters/port_rcv_data": "1\n", "mlx5_0/ports/2/counters/port_xmit_data": "2\n",
		"rxe0/ports/1/state": "4: ACTIVE\n",
	} {
		path := filepath.Join(root, "sys/class/infiniband", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &Source{root: root, now: time.Now, ask: func(request []byte) ([]byte, error) {
		index := noIndex
		if binary.NativeEndian.Uint16(request[4:]) == cmdQueuePairs {
			index = binary.NativeEndian.Uint32(request[headerSize+attrHeader:])
		}
		return answers[index], nil
	}}
}

var twoDevices = slices.Concat(
	message(cmdDevices, number(attrIndex, 0), attr(attrName, []byte("mlx5_0\x00")...), number(3, 2)),
	message(cmdDevices, number(attrIndex, 4), attr(attrName, []byte("rxe0\x00")...)), done)

// TestQueuePairs: users are found in several messages, once each; subnet management does not count, other queue pairs of the kernel
// do; an adapter without counters of octets is left out.
func TestQueuePairs(t *testing.T) {
	user := func(pid uint32) []byte { return qp(2, number(attrPID, pid)) }
	management := slices.Concat(qp(typeSMI, attr(attrKernel, []byte("ib_core\x00")...)), qp(typeGSI, attr(attrKernel, []byte("ib_core\x00")...)))
	list := func(qps ...[]byte) []byte { return attr(attrQPs|nested, slices.Concat(qps...)...) }
	for name, c := range map[string]struct {
		answer []byte
		users  []int32
		others bool
	}{
		"none":        {slices.Concat(message(cmdQueuePairs, number(attrIndex, 0), list(management)), done), nil, false},
		"two users":   {slices.Concat(message(cmdQueuePairs, list(management, user(40), user(30))), message(cmdQueuePairs, list(user(40))), done), []int32{30, 40}, false},
		"ipoib":       {slices.Concat(message(cmdQueuePairs, list(user(40), qp(4, attr(attrKernel, []byte("ib_ipoib\x00")...)))), done), []int32{40}, true},
		"unseen user": {slices.Concat(message(cmdQueuePairs, list(user(40), qp(2))), done), []int32{40}, true},
	} {
		s := source(t, map[uint32][]byte{noIndex: twoDevices, 0: c.answer})
		var p sensor.LinkPass
		for range 2 { // the second is too early
			if err := s.ReadLinks(&p); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if len(p.Links) != 1 || p.Links[0].Device != "mlx5_0" || p.Links[0].Octets != [2]uint64{404, 36} || !slices.Equal(p.Links[0].Users, c.users) || p.Links[0].Others != c.others {
			t.Errorf("%s: %+v", name, p.Links)
		}
	}
}

// TestBroken: errors of the kernel are reported, and answers that are cut off are no answers.
func TestBroken(t *testing.T) {
	full := slices.Concat(message(cmdQueuePairs, attr(attrQPs|nested, qp(2, number(attrPID, 40))...)), done)
	s := source(t, map[uint32][]byte{noIndex: twoDevices, 0: refusal(unix.EPERM)})
	if err := s.ReadLinks(new(sensor.LinkPass)); !errors.Is(err, unix.EPERM) {
		t.Errorf("refused: %v", err)
	}
	for n := range len(full) - len(done) + headerSize {
		s := source(t, map[uint32][]byte{noIndex: twoDevices, 0: full[:n]})
		var p sensor.LinkPass
		if err := s.ReadLinks(&p); err == nil || len(p.Links) != 0 {
			t.Errorf("%d of %d bytes: %+v, %v", n, len(full), p.Links, err)
		}
	}
	if !isDumpEnded(full) || isDumpEnded(full[:len(full)-len(done)]) {
		t.Error("the end of an answer is not found")
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(twoDevices)
	f.Add(refusal(unix.EPERM))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var l sensor.Link
		_ = eachMessage(b, func(body []byte) { _, _ = parseDevice(body); parseQueuePairs(body, &l) })
		_ = isDumpEnded(b)
	})
}

func TestOpen(t *testing.T) {
	s, err := Open("/")
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ReadLinks(new(sensor.LinkPass)); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
