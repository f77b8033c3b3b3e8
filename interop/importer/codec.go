package importer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"reckon/interop/sonar"
)

// Encoding of readings and states: integers as varints of seven bits per byte, each name once per
// piece, and figures as integers where possible.

type packer struct {
	b     []byte
	names map[string]uint64
}

func (p *packer) uint(v uint64) { p.b = binary.AppendUvarint(p.b, v) }
func (p *packer) int(v int64)   { p.b = binary.AppendVarint(p.b, v) }

func (p *packer) text(s string) {
	if n, ok := p.names[s]; ok {
		p.uint(n)
		return
	}
	if p.names == nil {
		p.names = map[string]uint64{}
	}
	p.names[s] = uint64(len(p.names)) + 1
	p.uint(0)
	p.uint(uint64(len(s)))
	p.b = append(p.b, s...)
}

// Encodings of a figure: the last two bits of its leading number.
const (
	figureUnits = 1 // units of one
	figureKibis = 2 // units of 1024
	figureBits  = 3 // eight bytes of floating point follow
)

func (p *packer) figure(v float64) {
	switch {
	case v == -1: // unknown
		p.uint(0)
	case v > 0 && v < 1<<50 && math.Mod(v, 1024) == 0:
		p.uint(uint64(v)/1024<<2 | figureKibis)
	case v >= 0 && v < 1<<50 && v == math.Trunc(v) && !math.Signbit(v):
		p.uint(uint64(v)<<2 | figureUnits)
	default:
		p.uint(figureBits)
		p.b = binary.LittleEndian.AppendUint64(p.b, math.Float64bits(v))
	}
}

func (p *packer) yes(list ...bool) {
	var v uint64
	for i, b := range list {
		if b {
			v |= 1 << i
		}
	}
	p.uint(v)
}

// unpacker decodes the output of a packer. After an error it returns zero values.
type unpacker struct {
	b     []byte
	names []string
	err   error
}

var errPacked = errors.New("it is truncated or has invalid values")

func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.fail()
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) int() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.fail()
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) fail() {
	u.b = nil
	if u.err == nil {
		u.err = errPacked
	}
}

// count reads the number of following items, each at least one byte long.
func (u *unpacker) count() int {
	v := u.uint()
	if v > uint64(len(u.b)) {
		u.fail()
		return 0
	}
	return int(v)
}

func (u *unpacker) text() string {
	n := u.uint()
	if n > 0 {
		if n > uint64(len(u.names)) {
			u.fail()
			return ""
		}
		return u.names[n-1]
	}
	size := u.count()
	s := string(u.b[:size])
	u.b = u.b[size:]
	u.names = append(u.names, s)
	return s
}

func (u *unpacker) figure() float64 {
	v := u.uint()
	switch v & 3 {
	case figureUnits:
		return float64(v >> 2)
	case figureKibis:
		return float64(v>>2) * 1024
	case figureBits:
		if len(u.b) < 8 {
			u.fail()
			return 0
		}
		f := math.Float64frombits(binary.LittleEndian.Uint64(u.b))
		u.b = u.b[8:]
		return f
	}
	return -1
}

func (p *packer) process(q *sonar.Process) {
	p.yes(q.HasEpoch, q.GPUs != "", q.Rolled > 0, q.Read >= 0 || q.Written >= 0, q.GPUs != "" || q.GPU != 0 || q.GPUMemory != 0)
	p.uint(q.Job)
	p.uint(q.Epoch)
	p.text(q.User)
	p.text(q.Cmd)
	p.uint(uint64(q.PID))
	p.uint(uint64(q.PPID))
	p.uint(uint64(q.Threads))
	p.figure(q.CPU)
	p.figure(q.Mean)
	p.figure(q.Resident)
	if q.GPUs != "" {
		p.text(q.GPUs)
	}
	if q.Rolled > 0 {
		p.uint(uint64(q.Rolled))
	}
	if q.Read >= 0 || q.Written >= 0 {
		p.figure(q.Read)
		p.figure(q.Written)
	}
	if q.GPUs != "" || q.GPU != 0 || q.GPUMemory != 0 {
		p.figure(q.GPU)
		p.figure(q.GPUMemory)
	}
}

func (u *unpacker) process() (q sonar.Process) {
	has := u.uint()
	q.HasEpoch = has&1 != 0
	q.Job, q.Epoch, q.User, q.Cmd = u.uint(), u.uint(), u.text(), u.text()
	q.PID, q.PPID, q.Threads = uint32(u.uint()), uint32(u.uint()), uint32(u.uint())
	q.CPU, q.Mean, q.Resident, q.Read, q.Written = u.figure(), u.figure(), u.figure(), -1, -1
	if has&2 != 0 {
		q.GPUs = u.text()
	}
	if has&4 != 0 {
		q.Rolled = uint32(u.uint())
	}
	if has&8 != 0 {
		q.Read, q.Written = u.figure(), u.figure()
	}
	if has&16 != 0 {
		q.GPU, q.GPUMemory = u.figure(), u.figure()
	}
	return q
}

func (p *packer) system(s *sonar.System) {
	p.yes(s.Load1 != nil)
	p.int(s.Boot)
	p.figure(s.UsedMemory)
	p.figure(s.TotalMemory)
	if s.Load1 != nil {
		p.figure(*s.Load1)
	}
	p.uint(uint64(len(s.CPU)))
	for _, v := range s.CPU {
		p.figure(v)
	}
	p.uint(uint64(len(s.Cards)))
	for i := range s.Cards {
		c := &s.Cards[i]
		p.yes(c.Failing, c.Performance != nil)
		p.uint(c.Index)
		p.text(c.UUID)
		if c.Performance != nil {
			p.uint(*c.Performance)
		}
		for _, v := range []float64{c.Fan, c.Memory, c.Busy, c.Temperature, c.Power, c.PowerLimit, c.Clock, c.MemoryClock} {
			p.figure(v)
		}
	}
}

func (u *unpacker) system() *sonar.System {
	s := &sonar.System{}
	has := u.uint()
	s.Boot, s.UsedMemory, s.TotalMemory = u.int(), u.figure(), u.figure()
	if has&1 != 0 {
		v := u.figure()
		s.Load1 = &v
	}
	if n := u.count(); n > 0 {
		s.CPU = make([]float64, n)
		for i := range s.CPU {
			s.CPU[i] = u.figure()
		}
	}
	for range u.count() {
		var c sonar.Card
		has := u.uint()
		c.Failing, c.Index, c.UUID = has&1 != 0, u.uint(), u.text()
		if has&2 != 0 {
			v := u.uint()
			c.Performance = &v
		}
		for _, v := range []*float64{&c.Fan, &c.Memory, &c.Busy, &c.Temperature, &c.Power, &c.PowerLimit, &c.Clock, &c.MemoryClock} {
			*v = u.figure()
		}
		s.Cards = append(s.Cards, c)
	}
	return s
}

// systemText returns a system in a form for comparing two of them.
func systemText(s *sonar.System) string {
	var p packer
	p.system(s)
	return string(p.b)
}

// readings packs the readings of a node, in order of time.
func (p *packer) readings(times []int64, at map[int64]*reading) {
	var last int64
	for _, t := range times {
		r := at[t]
		p.uint(uint64(t - last))
		last = t
		p.yes(r.system != nil, r.memory > 0, r.cluster != "", r.cores > 0)
		if r.system != nil {
			p.system(r.system)
		}
		if r.memory > 0 {
			p.figure(r.memory)
		}
		if r.cluster != "" {
			p.text(r.cluster)
		}
		if r.cores > 0 {
			p.uint(uint64(r.cores))
		}
		p.uint(uint64(len(r.procs)))
		for i := range r.procs {
			p.process(&r.procs[i])
		}
	}
}

// readings unpacks readings into those of the same node. fresh marks them as new to
// the series.
func (u *unpacker) readings(at map[int64]*reading, fresh bool) error {
	var t int64
	for len(u.b) > 0 && u.err == nil {
		t += int64(u.uint())
		has := u.uint()
		r := reading{}
		if has&1 != 0 {
			r.system = u.system()
		}
		if has&2 != 0 {
			r.memory = u.figure()
		}
		if has&4 != 0 {
			r.cluster = u.text()
		}
		if has&8 != 0 {
			r.cores = int(min(u.uint(), 1<<32))
		}
		r.procs = make([]sonar.Process, u.count())
		for i := range r.procs {
			r.procs[i] = u.process()
		}
		if fresh {
			r.fresh = len(r.procs)
		}
		if u.err != nil {
			break
		}
		if had := at[t]; had != nil {
			had.join(&r)
			continue
		}
		at[t] = &r
	}
	return u.err
}

// join adds another part of the same reading. If the two differ, their order
// does not matter.
func (r *reading) join(o *reading) {
	r.procs = append(r.procs, o.procs...)
	r.fresh += o.fresh
	r.memory, r.cluster, r.cores = max(r.memory, o.memory), max(r.cluster, o.cluster), max(r.cores, o.cores)
	if r.system == nil || (o.system != nil && systemText(o.system) > systemText(r.system)) {
		r.system = o.system
	}
}

// order sorts the processes of a reading into a canonical order; of duplicates of
// one process the one with the highest use is first.
func (r *reading) order() {
	slices.SortStableFunc(r.procs, func(a, b sonar.Process) int { return compare(&a, &b) })
}

func compare(a, b *sonar.Process) int {
	if c := cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.PID, b.PID)); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(a.PPID, b.PPID), cmp.Compare(a.Cmd, b.Cmd), cmp.Compare(b.CPU, a.CPU)); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(b.GPU, a.GPU), cmp.Compare(b.Resident, a.Resident), cmp.Compare(b.Read, a.Read),
		cmp.Compare(b.Written, a.Written)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(b.Mean, a.Mean), cmp.Compare(b.GPUMemory, a.GPUMemory),
		cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(b.Rolled, a.Rolled), cmp.Compare(b.Threads, a.Threads))
}

// packVersion is the version of packed states. It comes first, negated: the first releases
// started with the time of the last reading, which is not negative.
const packVersion = 1

// pack encodes the state of a node at the end of a period. Equal states have
// equal bytes.
func (n *nodeState) pack() []byte {
	var p packer
	p.int(-packVersion)
	p.int(n.Last)
	p.figure(n.Memory)
	keys := make([]jobKey, 0, len(n.Jobs))
	for k := range n.Jobs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, jobKey.compare)
	p.uint(uint64(len(keys)))
	for _, k := range keys {
		p.job(k, n.Jobs[k])
	}
	return p.b
}

func (p *packer) job(k jobKey, j *jobState) {
	p.yes(k.Batch, j.HasCPU, j.HasMemory, j.HasIO, j.HasGPU)
	p.uint(k.Job)
	p.uint(k.Epoch)
	p.uint(uint64(k.PID))
	p.text(k.User)
	for _, s := range []string{j.ID, j.Kind, j.Owner, j.Command} {
		p.text(s)
	}
	p.int(j.Last)
	p.int(j.Last - j.First)
	p.int(j.First - j.Start)
	for _, v := range []float64{j.CPU, j.Peak, j.ByteSecs, j.Resident, j.Read, j.Written} {
		p.figure(v)
	}
	for _, m := range []map[string]float64{j.Commands, j.GPU} {
		p.uint(uint64(len(m)))
		for _, name := range sortedKeys(m) {
			p.text(name)
			p.figure(m[name])
		}
	}
	p.uint(uint64(len(j.Procs)))
	for _, k := range sortedProcs(j.Procs) {
		p.proc(k, j.Procs[k], j.Last)
	}
}

func (p *packer) proc(k procKey, s procState, last int64) {
	deducted := s.Deducted != used{}
	p.yes(deducted)
	p.uint(uint64(k.PID))
	p.uint(uint64(k.PPID))
	p.text(k.Cmd)
	p.uint(uint64(s.PPID))
	p.text(s.Cmd)
	p.int(last - s.Seen)
	for _, v := range s.Used {
		p.figure(v)
	}
	if deducted {
		for _, v := range s.Deducted {
			p.figure(v)
		}
		p.uint(uint64(s.By))
	}
}

// proc reads a process of a job; version 0 contains only those of the last reading.
func (u *unpacker) proc(version int, last int64) (procKey, procState) {
	deducted := version > 0 && u.uint()&1 != 0
	k := procKey{PID: uint32(u.uint()), PPID: uint32(u.uint()), Cmd: u.text()}
	s := procState{PPID: uint32(u.uint()), Seen: last}
	if version > 0 {
		s.Cmd, s.Seen = u.text(), last-u.int()
	}
	for i := range s.Used {
		s.Used[i] = u.figure()
	}
	if deducted {
		for i := range s.Deducted {
			s.Deducted[i] = u.figure()
		}
		s.By = uint32(u.uint())
	}
	return k, s
}

func unpackState(b []byte) (*nodeState, error) {
	u := unpacker{b: b}
	n := &nodeState{Last: u.int(), Jobs: map[jobKey]*jobState{}}
	version := 0
	if n.Last < 0 {
		version, n.Last = int(-n.Last), u.int()
	}
	if version > packVersion {
		return nil, fmt.Errorf("the state of a node has version %d; this release reads up to %d", version, packVersion)
	}
	n.Memory = u.figure()
	for range u.count() {
		has := u.uint()
		k := jobKey{Batch: has&1 != 0, Job: u.uint(), Epoch: u.uint(), PID: uint32(u.uint()), User: u.text()}
		j := &jobState{HasCPU: has&2 != 0, HasMemory: has&4 != 0, HasIO: has&8 != 0, HasGPU: has&16 != 0}
		j.ID, j.Kind, j.Owner, j.Command = u.text(), u.text(), u.text(), u.text()
		j.Last = u.int()
		j.First = j.Last - u.int()
		j.Start = j.First - u.int()
		for _, v := range []*float64{&j.CPU, &j.Peak, &j.ByteSecs, &j.Resident, &j.Read, &j.Written} {
			*v = u.figure()
		}
		for _, m := range []*map[string]float64{&j.Commands, &j.GPU} {
			n := u.count()
			if n > 0 || m == &j.Commands {
				*m = make(map[string]float64, n)
			}
			for range n {
				name := u.text()
				(*m)[name] = u.figure()
			}
		}
		procs := u.count()
		j.Procs = make(map[procKey]procState, procs)
		for range procs {
			k, s := u.proc(version, j.Last)
			j.Procs[k] = s
		}
		n.Jobs[k] = j
	}
	return n, u.err
}
