// Package mounts has what is common to those who count what processes do on file systems by programs of BPF
// (../bpf/include/mounts.h): the records that the programs write, and the names of file systems.
//
// A [Reader] is used from one goroutine.
package mounts

import (
	"unsafe"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// Nobody is the key of the account of requests without a process.
const Nobody = uint32(0)

// Record is struct record of mounts.h: what a process did since the reading before.
type Record struct {
	PID   int32
	TGID  uint32
	Start uint64
	Ended uint64
	Uses  [5]struct {
		Dev   uint64 // plus 1
		Cells sensor.MountUse
	}
}

// RecordSize is that of a [Record] in bytes.
const RecordSize = int(unsafe.Sizeof(Record{}))

// Reader turns records into the activity of processes.
type Reader struct {
	pass     *sensor.MountPass // that is being read
	accounts *bpf.Accounts
	clock    bpf.Clock
	names    names
	take     func([]byte) (uint32, bool)
}

// NewReader returns a reader of accounts, and opens the one of requests without a process. root is where /proc of the machine is
// mounted; others is the name of file systems that have none, or are too many; local tells which types are those of this machine, nil if
// none is.
func NewReader(a *bpf.Accounts, root string, others sensor.Mount, local func(kind string) bool) (*Reader, error) {
	v := make([]byte, a.Map.ValueSize())
	account := (*struct {
		start uint64
		pid   int32
	})(unsafe.Pointer(&v[0]))
	account.pid = -1
	if err := a.Map.Put(Nobody, v); err != nil {
		return nil, err
	}
	r := &Reader{accounts: a, clock: bpf.OwnClock(), names: names{root: root, known: make(map[uint64]sensor.Mount), others: others, local: local}}
	r.take = r.record
	return r, nil
}

// Read appends what was counted since the last call to the pass.
func (r *Reader) Read(p *sensor.MountPass) error {
	r.pass = p
	return r.accounts.Read(r.take)
}

// record takes in one record.
func (r *Reader) record(b []byte) (key uint32, ended bool) {
	x := (*Record)(unsafe.Pointer(&b[0]))
	for i := range x.Uses {
		u := &x.Uses[i]
		if u.Cells == (sensor.MountUse{}) {
			continue
		}
		r.pass.Used = append(r.pass.Used, sensor.Mounted{PID: max(x.PID, 0), Start: r.clock.Here(x.Start), Mount: r.names.of(u.Dev, x.PID), Use: u.Cells})
	}
	return x.TGID, x.Ended != 0
}
