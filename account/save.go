package account

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

// Save writes the serialized ledger to w in pieces, because it takes megabytes on a node with 20,000 processes. bootID
// is the content of /proc/sys/kernel/random/boot_id. Call Save between an export and the next tick. The state then
// includes the parts that ended with that export, and is never older than the exported data.
func (l *Ledger) Save(w io.Writer, bootID string) error {
	s := &saver{w: w, index: make(map[*Part]int, len(l.parts.order))}
	s.encoder = json.NewEncoder(&s.buf)
	s.appendJSON(l.stateHeader(bootID))
	s.buf.Truncate(s.buf.Len() - 1) // the object continues
	s.nextList(`,"parts":[`)
	commands := make(map[string]uint64)
	for _, p := range l.parts.order {
		if p.phase != absorbed {
			s.index[p] = len(s.index)
			s.nextElement()
			part := p.state(commands)
			part.Deleted = l.parts.deletes.state(p)
			part.Doubts = l.table.doubts.state(p)
			s.appendJSON(&part)
		}
	}
	s.nextList(`],"processes":[`)
	for pid, e := range l.table.byID {
		i, ok := s.index[e.part]
		if !ok {
			i = s.index[l.parts.other] // for programs that do not read its name
		}
		if ok || e.dead != 0 {
			s.nextElement()
			s.appendProcess(pid, e, i, !ok)
		}
	}
	s.nextList(`],"cores":{`)
	for _, p := range l.parts.order {
		if g := p.group; g.lead == p {
			s.nextElement()
			s.appendJSON(string(g.id))
			s.buf.WriteByte(':')
			s.appendJSON(&g.cores)
		}
	}
	s.nextList(`},"wanted":{`)
	for _, p := range l.parts.order {
		if g := p.group; g.lead == p && g.wanted != nil {
			s.nextElement()
			s.appendJSON(string(g.id))
			s.buf.WriteByte(':')
			s.appendJSON(&g.wanted.cores)
		}
	}
	s.nextList(`},"wholes":{`)
	for _, p := range l.parts.order {
		if g := p.group; g.lead == p && g.whole != nil && (g.whole.memory.peak > 0 || g.whole.memory.neededPeak > 0) {
			s.nextElement()
			s.appendJSON(string(g.id))
			s.buf.WriteByte(':')
			need := g.whole.memory.bounds.savedState()
			s.appendJSON(append([]uint64{g.whole.memory.peak, g.whole.memory.neededPeak}, need[:]...))
		}
	}
	s.buf.WriteString("}}")
	return s.close()
}

// saver writes a state as one line of JSON, then the checksum of that line.
type saver struct {
	w        io.Writer
	index    map[*Part]int // of the parts that were written
	encoder  *json.Encoder
	buf      bytes.Buffer
	begun    bool // the present list or object has an element
	checksum uint32
	err      error // the first one
}

// saveBufferSize is the number of bytes that are collected before they are written.
const saveBufferSize = 32 << 10

// nextList ends a list or an object and begins the next.
func (s *saver) nextList(between string) {
	s.buf.WriteString(between)
	s.begun = false
}

// nextElement begins an element.
func (s *saver) nextElement() {
	if s.begun {
		s.buf.WriteByte(',')
	}
	s.begun = true
	if s.buf.Len() >= saveBufferSize {
		s.flush()
	}
}

// appendJSON appends v as encoding/json writes it.
func (s *saver) appendJSON(v any) {
	if err := s.encoder.Encode(v); err != nil && s.err == nil {
		s.err = err
	}
	s.buf.Truncate(max(s.buf.Len()-1, 0)) // the newline
}

// appendProcess appends a processState without reflection, which would take most of the time because there are many.
// named adds the name of its part.
func (s *saver) appendProcess(pid int32, e *process, part int, named bool) {
	b := append(s.buf.AvailableBuffer(), `{"p":`...)
	b = strconv.AppendInt(b, int64(pid), 10)
	if e.ppid != 0 {
		b = strconv.AppendInt(append(b, `,"pp":`...), int64(e.ppid), 10)
	}
	b = strconv.AppendUint(append(b, `,"s":`...), e.start, 10)
	b = strconv.AppendInt(append(b, `,"a":`...), int64(part), 10)
	b = append(b, `,"u":[`...)
	for i, v := range e.last.toArray() {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, v, 10)
	}
	b = append(b, ']')
	if e.gone {
		b = append(b, `,"g":true`...)
	}
	if e.passed {
		b = append(b, `,"l":true`...)
	}
	if c := e.savedChildTimes(); c != [2]uint64{} {
		b = strconv.AppendUint(append(b, `,"c":[`...), c[0], 10)
		b = strconv.AppendUint(append(b, ','), c[1], 10)
		b = append(b, ']')
	}
	if e.dead != 0 {
		b = strconv.AppendUint(append(b, `,"d":`...), e.dead, 10)
	}
	s.buf.Write(b)
	if named {
		s.buf.WriteString(`,"f":`)
		s.appendJSON([2]string{string(e.part.id), e.part.owner})
	}
	s.buf.WriteByte('}')
}

func (s *saver) flush() {
	s.checksum = crc32.Update(s.checksum, castagnoli, s.buf.Bytes())
	if s.err == nil {
		_, s.err = s.w.Write(s.buf.Bytes())
	}
	s.buf.Reset()
}

// close ends the line and writes the checksum.
func (s *saver) close() error {
	s.buf.WriteByte('\n')
	s.flush()
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, sealFormat, s.checksum)
	}
	return s.err
}
