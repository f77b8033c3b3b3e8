package importer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"reckon/interop/sonar"
)

// Encoding of readings and states: integers as varints of seven bits per byte, each name once per piece, and figures as integers where
// possible. One description of each type both writes and reads it.

// coder writes to b, or reads from it. After an error it reads zero values.
type coder struct {
	b     []byte
	write bool
	at    map[string]uint64 // names that were written
	names []string          // names that were read
	err   error
}

var errPacked = errors.New("it is truncated or has invalid values")

func (c *coder) setError() {
	c.b = nil
	if c.err == nil {
		c.err = errPacked
	}
}

// codeVarint codes an unsigned number.
func codeVarint[T ~uint64 | ~uint32 | ~int](c *coder, v *T) {
	if c.write {
		c.b = binary.AppendUvarint(c.b, uint64(*v))
		return
	}
	u, n := binary.Uvarint(c.b)
	if n <= 0 {
		*v = 0
		c.setError()
		return
	}
	*v, c.b = T(u), c.b[n:]
}

func (c *coder) codeInt(v *int64) {
	if c.write {
		c.b = binary.AppendVarint(c.b, *v)
		return
	}
	i, n := binary.Varint(c.b)
	if n <= 0 {
		*v = 0
		c.setError()
		return
	}
	*v, c.b = i, c.b[n:]
}

// codeCount codes the number of following items, each at least one byte long.
func (c *coder) codeCount(n int) int {
	codeVarint(c, &n)
	if !c.write && (n < 0 || n > len(c.b)) {
		c.setError()
		return 0
	}
	return n
}

func (c *coder) codeText(s *string) {
	n := c.at[*s]
	if !c.write {
		n = 0
	}
	codeVarint(c, &n)
	switch {
	case !c.write && n > uint64(len(c.names)):
		c.setError()
		fallthrough
	case !c.write && c.err != nil:
		*s = ""
	case n > 0 && !c.write:
		*s = c.names[n-1]
	case n > 0:
	case c.write:
		if c.at == nil {
			c.at = map[string]uint64{}
		}
		c.at[*s] = uint64(len(c.at)) + 1
		c.codeCount(len(*s))
		c.b = append(c.b, *s...)
	default:
		size := c.codeCount(0)
		*s = string(c.b[:size])
		c.b = c.b[size:]
		c.names = append(c.names, *s)
	}
}

// Encodings of a figure: the last two bits of its leading number.
const (
	figureUnits = 1 // units of one
	figureKibis = 2 // units of 1024
	figureBits  = 3 // eight bytes of floating point follow
)

func (c *coder) codeFigure(v *float64) {
	var u uint64 // 0: unknown, -1
	if c.write {
		switch {
		case *v == -1:
		case *v > 0 && *v < 1<<50 && math.Mod(*v, 1024) == 0:
			u = uint64(*v)/1024<<2 | figureKibis
		case *v >= 0 && *v < 1<<50 && *v == math.Trunc(*v) && !math.Signbit(*v):
			u = uint64(*v)<<2 | figureUnits
		default:
			u = figureBits
		}
		if codeVarint(c, &u); u == figureBits {
			c.b = binary.LittleEndian.AppendUint64(c.b, math.Float64bits(*v))
		}
		return
	}
	codeVarint(c, &u)
	switch u & 3 {
	case figureUnits:
		*v = float64(u >> 2)
	case figureKibis:
		*v = float64(u>>2) * 1024
	case figureBits:
		if *v = 0; len(c.b) < 8 {
			c.setError()
			return
		}
		*v = math.Float64frombits(binary.LittleEndian.Uint64(c.b))
		c.b = c.b[8:]
	default:
		*v = -1
	}
}

func (c *coder) codeFigures(list ...*float64) {
	for _, v := range list {
		c.codeFigure(v)
	}
}

func (c *coder) codeBools(list ...*bool) {
	var v uint64
	for i, b := range list {
		if *b {
			v |= 1 << i
		}
	}
	codeVarint(c, &v)
	for i, b := range list {
		*b = v&(1<<i) != 0
	}
}

func (c *coder) codeProcess(q *sonar.Process) {
	onCards, several := q.GPUs != "", q.Rolled > 0
	moved, ofGPU := q.Read >= 0 || q.Written >= 0, q.GPUs != "" || q.GPU != 0 || q.GPUMemory != 0
	c.codeBools(&q.HasEpoch, &onCards, &several, &moved, &ofGPU)
	codeVarint(c, &q.Job)
	codeVarint(c, &q.Epoch)
	c.codeText(&q.User)
	c.codeText(&q.Cmd)
	codeVarint(c, &q.PID)
	codeVarint(c, &q.PPID)
	codeVarint(c, &q.Threads)
	c.codeFigures(&q.CPU, &q.Mean, &q.Resident)
	if onCards {
		c.codeText(&q.GPUs)
	}
	if several {
		codeVarint(c, &q.Rolled)
	}
	if moved {
		c.codeFigures(&q.Read, &q.Written)
	} else if !c.write {
		q.Read, q.Written = -1, -1
	}
	if ofGPU {
		c.codeFigures(&q.GPU, &q.GPUMemory)
	}
}

// codeOptional codes a value that may be absent.
func codeOptional[T any](here bool, v **T, code func(*T)) {
	if here {
		if *v == nil {
			*v = new(T)
		}
		code(*v)
	}
}

// resizeList returns a list of some length to be read into.
func resizeList[T any](c *coder, list *[]T) {
	if n := c.codeCount(len(*list)); !c.write {
		*list = slices.Grow([]T(nil), n)[:n]
	}
}

func (c *coder) codeSystem(s *sonar.System) {
	loaded := s.Load1 != nil
	c.codeBools(&loaded)
	c.codeInt(&s.Boot)
	c.codeFigures(&s.UsedMemory, &s.TotalMemory)
	codeOptional(loaded, &s.Load1, c.codeFigure)
	resizeList(c, &s.CPU)
	for i := range s.CPU {
		c.codeFigure(&s.CPU[i])
	}
	resizeList(c, &s.Cards)
	for i := range s.Cards {
		x := &s.Cards[i]
		performs := x.Performance != nil
		c.codeBools(&x.Failing, &performs)
		codeVarint(c, &x.Index)
		c.codeText(&x.UUID)
		codeOptional(performs, &x.Performance, func(v *uint64) { codeVarint(c, v) })
		c.codeFigures(&x.Fan, &x.Memory, &x.Busy, &x.Temperature, &x.Power, &x.PowerLimit, &x.Clock, &x.MemoryClock)
	}
}

// systemText returns a system in a form for comparing two of them.
func systemText(s *sonar.System) string {
	c := coder{write: true}
	c.codeSystem(s)
	return string(c.b)
}

func (c *coder) codeReading(r *reading) {
	system, memory, cluster, cores := r.system != nil, r.memory > 0, r.cluster != "", r.cores > 0
	c.codeBools(&system, &memory, &cluster, &cores)
	codeOptional(system, &r.system, c.codeSystem)
	if memory {
		c.codeFigure(&r.memory)
	}
	if cluster {
		c.codeText(&r.cluster)
	}
	if cores {
		codeVarint(c, &r.cores)
		r.cores = min(max(r.cores, 0), 1<<32)
	}
	resizeList(c, &r.procs)
	for i := range r.procs {
		c.codeProcess(&r.procs[i])
	}
}

// packReadings writes the readings of a node, in order of time.
func (c *coder) packReadings(times []int64, at map[int64]*reading) {
	var last int64
	for _, t := range times {
		since := uint64(t - last)
		codeVarint(c, &since)
		last = t
		c.codeReading(at[t])
	}
}

// unpackReadings reads readings and merges them into the readings of the same node. fresh marks them as new to the series.
func (c *coder) unpackReadings(at map[int64]*reading, fresh bool) error {
	var t int64
	for len(c.b) > 0 && c.err == nil {
		var since uint64
		codeVarint(c, &since)
		t += int64(since)
		r := &reading{}
		if c.codeReading(r); fresh {
			r.fresh = len(r.procs)
		}
		if c.err != nil {
			break
		}
		if had := at[t]; had != nil {
			had.mergeReading(r)
			continue
		}
		at[t] = r
	}
	return c.err
}

// mergeReading adds another part of the same reading. If the two differ, their order does not matter.
func (r *reading) mergeReading(o *reading) {
	r.procs = append(r.procs, o.procs...)
	r.fresh += o.fresh
	r.memory, r.cluster, r.cores = max(r.memory, o.memory), max(r.cluster, o.cluster), max(r.cores, o.cores)
	if r.system == nil || (o.system != nil && systemText(o.system) > systemText(r.system)) {
		r.system = o.system
	}
}

// sortProcesses sorts the processes of a reading into a canonical order; of duplicates of one process the one with the highest use is
// first.
func (r *reading) sortProcesses() {
	slices.SortStableFunc(r.procs, func(a, b sonar.Process) int { return compareProcesses(&a, &b) })
}

func compareProcesses(a, b *sonar.Process) int {
	if c := cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.PID, b.PID)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.PPID, b.PPID), cmp.Compare(a.Cmd, b.Cmd), cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.GPU, a.GPU),
		cmp.Compare(b.Resident, a.Resident), cmp.Compare(b.Read, a.Read), cmp.Compare(b.Written, a.Written), cmp.Compare(a.User, b.User),
		cmp.Compare(b.Mean, a.Mean), cmp.Compare(b.GPUMemory, a.GPUMemory), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(b.Rolled, a.Rolled),
		cmp.Compare(b.Threads, a.Threads))
}

// packVersion is the version of packed states. It comes first, negated.
const packVersion = 1

// packState encodes the state of a node at the end of a period. Equal states have equal bytes.
func (n *nodeState) packState() []byte {
	c := coder{write: true}
	version := int64(-packVersion)
	c.codeInt(&version)
	c.codeState(n)
	return c.b
}

func unpackState(b []byte) (*nodeState, error) {
	c, n, version := coder{b: b}, &nodeState{Jobs: map[jobKey]*jobState{}}, int64(0)
	if c.codeInt(&version); version != -packVersion && c.err == nil {
		return nil, fmt.Errorf("the state of a node has version %d; this release reads %d", -version, packVersion)
	}
	c.codeState(n)
	return n, c.err
}

func (c *coder) codeState(n *nodeState) {
	c.codeInt(&n.Last)
	c.codeFigure(&n.Memory)
	codeMap(c, n.Jobs, jobKey.compare, c.codeJob)
}

// codeMap codes a map in the order of its keys.
func codeMap[K comparable, V any](c *coder, m map[K]V, compare func(K, K) int, code func(*K, *V)) {
	keys := slices.SortedFunc(maps.Keys(m), compare)
	for i := range c.codeCount(len(m)) {
		var k K
		var v V
		if c.write {
			k, v = keys[i], m[keys[i]]
		}
		if code(&k, &v); !c.write && c.err == nil {
			m[k] = v
		}
	}
}

func (c *coder) codeJob(k *jobKey, of **jobState) {
	if *of == nil {
		*of = &jobState{Commands: map[string]float64{}, GPU: map[string]float64{}, Procs: map[procKey]procState{}}
	}
	j := *of
	c.codeBools(&k.Batch, &j.HasCPU, &j.HasMemory, &j.HasIO, &j.HasGPU)
	codeVarint(c, &k.Job)
	codeVarint(c, &k.Epoch)
	codeVarint(c, &k.PID)
	c.codeText(&k.User)
	for _, s := range []*string{&j.ID, &j.Kind, &j.Owner, &j.Command} {
		c.codeText(s)
	}
	first, start := j.Last-j.First, j.First-j.Start
	for _, v := range []*int64{&j.Last, &first, &start} {
		c.codeInt(v)
	}
	j.First = j.Last - first
	j.Start = j.First - start
	c.codeFigures(&j.CPU, &j.Peak, &j.ByteSecs, &j.Resident, &j.Read, &j.Written)
	for _, m := range []map[string]float64{j.Commands, j.GPU} {
		codeMap(c, m, cmp.Compare[string], func(name *string, v *float64) {
			c.codeText(name)
			c.codeFigure(v)
		})
	}
	codeMap(c, j.Procs, procKey.compare, func(k *procKey, s *procState) {
		deducted, since := s.Deducted != processUse{}, j.Last-s.Seen
		c.codeBools(&deducted)
		codeVarint(c, &k.PID)
		codeVarint(c, &k.PPID)
		c.codeText(&k.Cmd)
		codeVarint(c, &s.PPID)
		c.codeText(&s.Cmd)
		c.codeInt(&since)
		s.Seen = j.Last - since
		c.codeFigures(&s.Used[0], &s.Used[1], &s.Used[2])
		if deducted {
			c.codeFigures(&s.Deducted[0], &s.Deducted[1], &s.Deducted[2])
			codeVarint(c, &s.By)
		}
	})
}
