package importer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"reckon/internal/dirty"
	"reckon/internal/durable"
	"reckon/store/tsdb"
)

// A journal stores the readings of a site unchanged, so that its series can be rebuilt when older readings arrive. Its directory
// contains, for each period with readings,
//
//	BEGIN.log  the readings: pieces of one node each, appended as they arrive
//	BEGIN.end  for each node how much of the log is in the series, and the state of
//	           its jobs at the end of the period; written after the series
//
// A piece is its length (4 bytes, little endian), the Castagnoli CRC-32 of the rest (4 bytes), the name of the node, its first and last
// time and the number of its records (see coder), and the readings compressed by zstd. A piece truncated by a crash is ignored; its input
// will be imported again.

// periodSeconds is the time covered by one log, in seconds: the same as one block of series.
const periodSeconds = int64(tsdb.HistoryRange / 1e9)

func periodStart(t int64) int64 { return dirty.Floor(t, periodSeconds) }

// logRange is the position of readings of a node in a log.
type logRange struct {
	off, size int64
	first     int64
	last      int64
	records   int // processes, plus one per reading
}

// journalLog is the log of a period.
type journalLog struct {
	path   string
	size   int64
	pieces map[string][]logRange
}

type journal struct {
	dir  string
	logs map[int64]*journalLog
	ends map[int64]*periodEnds
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	pack []byte
}

// maxCached is the number of periods with cached file contents.
const maxCached = 48

func openJournal(dir string) (*journal, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		return nil, err
	}
	return &journal{dir: dir, logs: map[int64]*journalLog{}, ends: map[int64]*periodEnds{}, enc: enc, dec: dec}, nil
}

func (j *journal) filePath(p int64, kind string) string {
	return filepath.Join(j.dir, strconv.FormatInt(p, 10)+kind)
}

// listPeriods lists the periods with readings, in order.
func (j *journal) listPeriods() ([]int64, error) {
	list, err := os.ReadDir(j.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []int64
	for _, e := range list {
		name, ok := strings.CutSuffix(e.Name(), ".log")
		if p, err := strconv.ParseInt(name, 10, 64); ok && err == nil {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openLog lists the pieces in the log of a period.
func (j *journal) openLog(p int64) (*journalLog, error) {
	if l := j.logs[p]; l != nil {
		return l, nil
	}
	l := &journalLog{path: j.filePath(p, ".log"), pieces: map[string][]logRange{}}
	f, err := os.Open(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		defer f.Close()
		if err := l.scanPieces(f); err != nil {
			return nil, fmt.Errorf("read %s: %w", l.path, err)
		}
	}
	if len(j.logs) >= maxCached {
		clear(j.logs)
	}
	j.logs[p] = l
	return l, nil
}

// pieceHead is the maximum size of the head of a piece: names of nodes are shorter.
const pieceHead = 8 + 4096 + 40

func (l *journalLog) scanPieces(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	head := make([]byte, pieceHead)
	var last logRange
	lastNode := ""
	for l.size < end {
		n, err := f.ReadAt(head, l.size)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		node, pc, ok := parsePiece(head[:n])
		if !ok || l.size+pc.size > end {
			break // truncated
		}
		pc.off = l.size
		l.pieces[node] = append(l.pieces[node], pc)
		l.size += pc.size
		last, lastNode = pc, node
	}
	if lastNode == "" && last.size == 0 {
		return nil
	}
	// The last piece may have been incomplete when the machine stopped.
	raw := make([]byte, last.size)
	if _, err := f.ReadAt(raw, last.off); err != nil {
		return err
	}
	if crc32.Checksum(raw[8:], castagnoli) != binary.LittleEndian.Uint32(raw[4:]) {
		l.pieces[lastNode] = l.pieces[lastNode][:len(l.pieces[lastNode])-1]
		l.size = last.off
	}
	return nil
}

// parsePiece parses the head of a piece.
func parsePiece(b []byte) (node string, pc logRange, ok bool) {
	if len(b) < 9 {
		return "", pc, false
	}
	pc.size = 8 + int64(binary.LittleEndian.Uint32(b))
	c := coder{b: b[8:]}
	c.codeHead(&node, &pc)
	return node, pc, c.err == nil && pc.size > 8
}

// codeHead codes the data before the readings of a piece.
func (c *coder) codeHead(node *string, pc *logRange) {
	span := uint64(pc.last - pc.first)
	c.codeText(node)
	c.codeInt(&pc.first)
	codeVarint(c, &span)
	codeVarint(c, &pc.records)
	pc.last = pc.first + int64(span)
}

// loadReadings reads pieces into at; those after the first covered records are fresh.
func (j *journal) loadReadings(l *journalLog, pieces []logRange, covered int, at map[int64]*reading) error {
	if len(pieces) == 0 {
		return nil
	}
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	seen := 0
	for _, pc := range pieces {
		raw := make([]byte, pc.size)
		if _, err := f.ReadAt(raw, pc.off); err != nil {
			return fmt.Errorf("read %s: %w", l.path, err)
		}
		if crc32.Checksum(raw[8:], castagnoli) != binary.LittleEndian.Uint32(raw[4:]) {
			return fmt.Errorf(
				"%s is corrupt at byte %d; restore it from a backup, or delete it and its .end and import what it holds again", l.path,
				pc.off)
		}
		c, node, of := coder{b: raw[8:]}, "", logRange{}
		c.codeHead(&node, &of)
		j.pack, err = j.dec.DecodeAll(c.b, j.pack[:0])
		if err == nil {
			err = (&coder{b: j.pack}).unpackReadings(at, seen >= covered)
		}
		if err != nil {
			return fmt.Errorf("%s, byte %d: %w", l.path, pc.off, err)
		}
		seen += pc.records
	}
	return nil
}

// appendReadings appends readings of nodes to the log of a period, each with its times in order.
func (j *journal) appendReadings(p int64, l *journalLog, nodes []string, at map[string]map[int64]*reading) (err error) {
	if err := os.MkdirAll(j.dir, 0o750); err != nil {
		return fmt.Errorf("keep readings: %w", err)
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("keep readings: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			delete(j.logs, p)
			err = fmt.Errorf("keep readings: %w", err)
		}
	}()
	if err := f.Truncate(l.size); err != nil { // removes an incomplete record after a crash
		return err
	}
	var out bytes.Buffer
	begin := l.size
	for _, node := range nodes {
		times := sortedKeys(at[node])
		body := coder{write: true}
		body.packReadings(times, at[node])
		pc := logRange{off: l.size, first: times[0], last: times[len(times)-1]}
		for _, t := range times {
			pc.records += 1 + len(at[node][t].procs)
		}
		head := coder{write: true, b: make([]byte, 8, 64+len(body.b)/2)}
		head.codeHead(&node, &pc)
		raw := j.enc.EncodeAll(body.b, head.b)
		binary.LittleEndian.PutUint32(raw, uint32(len(raw)-8))
		binary.LittleEndian.PutUint32(raw[4:], crc32.Checksum(raw[8:], castagnoli))
		pc.size = int64(len(raw))
		l.size += pc.size
		l.pieces[node] = append(l.pieces[node], pc)
		out.Write(raw)
	}
	if _, err := f.WriteAt(out.Bytes(), begin); err != nil {
		return err
	}
	return f.Sync()
}

// nodeEnd is the state of a node at the end of a period.
type nodeEnd struct {
	records int    // of the log, included in the series
	from    uint64 // hash of the state before the period
	state   []byte
}

func (c *coder) codeEnd(name *string, n *nodeEnd) {
	c.codeText(name)
	codeVarint(c, &n.records)
	codeVarint(c, &n.from)
	size := c.codeCount(len(n.state))
	if c.write {
		c.b = append(c.b, n.state...)
		return
	}
	n.state, c.b = c.b[:size:size], c.b[size:]
}

type periodEnds struct {
	nodes map[string]nodeEnd
	dirty bool
}

// loadEnds reads the states of nodes at the end of a period.
func (j *journal) loadEnds(p int64) (*periodEnds, error) {
	if e := j.ends[p]; e != nil {
		return e, nil
	}
	e := &periodEnds{nodes: map[string]nodeEnd{}}
	path := j.filePath(p, ".end")
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		all, err := j.dec.DecodeAll(raw, nil)
		c := coder{b: all}
		for err == nil && len(c.b) > 0 {
			var name string
			var n nodeEnd
			c.codeEnd(&name, &n)
			e.nodes[name], err = n, c.err
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w; restore it from a backup, or delete it: its series are rebuilt from the .log next to it",
				path, err)
		}
	}
	if len(j.ends) >= maxCached {
		maps.DeleteFunc(j.ends, func(_ int64, x *periodEnds) bool { return !x.dirty })
	}
	j.ends[p] = e
	return e, nil
}

// saveEnds writes the states at the end of changed periods.
func (j *journal) saveEnds() error {
	for _, p := range sortedKeys(j.ends) {
		e := j.ends[p]
		if !e.dirty {
			continue
		}
		out := coder{write: true}
		for _, name := range sortedKeys(e.nodes) {
			n := e.nodes[name]
			out.codeEnd(&name, &n)
		}
		if err := replaceFile(j.filePath(p, ".end"), j.enc.EncodeAll(out.b, nil)); err != nil {
			return err
		}
		e.dirty = false
	}
	return nil
}

// replaceFile replaces a file atomically.
func replaceFile(path string, raw []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o750)
	if err == nil {
		err = durable.Replace(path, raw, 0o640)
	}
	if err != nil {
		return fmt.Errorf("save the import state: %w", err)
	}
	return nil
}
