package files

import (
	"unsafe"

	"reckon/sensor"
	"reckon/sensor/task/bpf"
)

// noProcess is the key of the account of calls without a process.
const noProcess = uint32(0)

// mountID identifies a mounted file system.
type mountID struct {
	Type, Source string // as in /proc/PID/mountinfo: fuse.sshfs and host:/home
	Local        bool   // it is of this machine, and calls are counted that its caches may serve
}

// name returns the name of the set of series of the file system.
func (m mountID) name() sensor.TallyName {
	n := sensor.TallyName{Set: networkSet, Labels: [2]string{m.Type, m.Source}}
	if m.Local {
		n.Set = localSet
	}
	return n
}

// callCounts are the calls of a process on one file system, by read, write and metadata.
type callCounts struct {
	Bytes      [2]uint64 // read, written
	Operations [3]uint64
	Nanos      [3]uint64 // until the call returned, added up
}

// mountRecord is struct record of ../bpf/include/mounts.h: the calls of a process since the previous reading.
type mountRecord struct {
	PID   int32
	TGID  uint32
	Start uint64
	Ended uint64
	Uses  [5]struct {
		Dev   uint64 // plus 1
		Cells callCounts
	}
}

// recordSize is the size of a record in bytes.
const recordSize = int(unsafe.Sizeof(mountRecord{}))

// reader turns records into rows.
type reader struct {
	pass     *sensor.TallyPass // that is being read
	accounts *bpf.Accounts
	clock    bpf.Clock
	names    mountNames
	take     func([]byte) (uint32, bool)
}

// newReader returns a reader of the accounts in a. It also opens the account for calls without a process. root is the
// mount point of the machine's file tree. others is the name of file systems that have no name or exceed the limit.
func newReader(a *bpf.Accounts, root string, others mountID) (*reader, error) {
	v := make([]byte, a.Map.ValueSize())
	account := (*struct {
		start uint64
		pid   int32
	})(unsafe.Pointer(&v[0]))
	account.pid = -1
	if err := a.Map.Put(noProcess, v); err != nil {
		return nil, err
	}
	r := &reader{accounts: a, clock: bpf.OwnClock(), names: mountNames{root: root, known: make(map[uint64]mountID), others: others}}
	r.take = r.readRecord
	return r, nil
}

// read appends the counts since the last call to the pass.
func (r *reader) read(p *sensor.TallyPass) error {
	r.pass = p
	return r.accounts.Read(r.take)
}

// readRecord appends one record.
func (r *reader) readRecord(b []byte) (key uint32, ended bool) {
	x := (*mountRecord)(unsafe.Pointer(&b[0]))
	for i := range x.Uses {
		u := &x.Uses[i]
		if u.Cells == (callCounts{}) {
			continue
		}
		name := r.names.fileSystem(u.Dev, x.PID).name()
		series := len(Spec.Sets[name.Set].Series) // without the times of local calls
		row := sensor.TallyRow{PID: max(x.PID, 0), Start: r.clock.Here(x.Start), Name: r.pass.Named(name)}
		for k, n := range (*[valuesPerMount]uint64)(unsafe.Pointer(&u.Cells)) {
			if row.Series, row.Amount = uint8(k), n; n != 0 && k < series {
				r.pass.Rows = append(r.pass.Rows, row)
			}
		}
	}
	return x.TGID, x.Ended != 0
}

// valuesPerMount is the number of values per file system in a record. The series of its set are in the same order.
const valuesPerMount = int(unsafe.Sizeof(callCounts{}) / 8)
