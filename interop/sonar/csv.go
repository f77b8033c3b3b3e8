package sonar

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"reckon/interop/sacct"
)

// csvRow is a line of tagged CSV while it is being parsed.
type csvRow struct {
	p     Process
	sys   *System // of the node, which only one line of a reading contains
	cores int
	at    int64
	host  string
	has   uint8
	slurm map[string]string
}

const (
	hasTime = 1 << iota
	hasHost
	hasUser
	hasCmd
	hasCPU
)

// readCSV reads lines; tagged, untagged and Slurm lines may be mixed.
func (r *Reader) readCSV(br *bufio.Reader, h *Handler) error {
	var long []byte
	for line := 1; ; line++ {
		text, err := br.ReadSlice('\n')
		long = long[:0]
		for errors.Is(err, bufio.ErrBufferFull) && len(long)+len(text) <= r.o.MaxLine {
			long = append(long, text...)
			text, err = br.ReadSlice('\n')
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
			h.reportBad(line, fmt.Errorf("line is longer than %d bytes", r.o.MaxLine))
			text, long = nil, long[:0]
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(long) > 0 {
			long = append(long, text...)
			text = long
		}
		text = bytes.TrimRight(text, "\r\n")
		if len(bytes.TrimSpace(text)) > 0 {
			if bad, fatal := r.parseLine(text, h); fatal != nil {
				return fatal
			} else if bad != nil {
				h.reportBad(line, bad)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// parseLine parses one line. bad is an error in the line, fatal an error of the handler.
func (r *Reader) parseLine(text []byte, h *Handler) (bad, fatal error) {
	if r.cells, bad = splitCells(r.cells[:0], text); bad != nil {
		return bad, nil
	}
	tagged := false
	for _, c := range r.cells[:min(2, len(r.cells))] {
		tagged = tagged || bytes.HasPrefix(c, []byte("v=")) || bytes.HasPrefix(c, []byte("time="))
	}
	if !tagged {
		return r.parseUntagged(h)
	}
	return r.parseTagged(h)
}

// splitCells splits a line at commas. A quoted field may contain commas, and doubled quotes.
func splitCells(cells [][]byte, text []byte) ([][]byte, error) {
	for {
		if len(text) == 0 || text[0] != '"' {
			at := bytes.IndexByte(text, ',')
			if at < 0 {
				return append(cells, text), nil
			}
			cells, text = append(cells, text[:at]), text[at+1:]
			continue
		}
		end := 1
		doubled := false
		for {
			at := bytes.IndexByte(text[end:], '"')
			if at < 0 {
				return cells, errors.New("a quote is not closed")
			}
			end += at
			if end+1 < len(text) && text[end+1] == '"' {
				end, doubled = end+2, true
				continue
			}
			break
		}
		cell := text[1:end]
		if doubled {
			cell = bytes.ReplaceAll(cell, []byte(`""`), []byte(`"`))
		}
		cells, text = append(cells, cell), text[end+1:]
		switch {
		case len(text) == 0:
			return cells, nil
		case text[0] != ',':
			return cells, errors.New("text after a closing quote")
		}
		text = text[1:]
	}
}

func (r *Reader) parseTagged(h *Handler) (bad, fatal error) {
	w := &r.row
	slurm := w.slurm
	clear(slurm)
	*w = csvRow{slurm: slurm}
	w.p = Process{Mean: -1, Resident: -1, Virtual: -1, Read: -1, Written: -1, GPU: -1, GPUMemory: -1}
	for _, c := range r.cells {
		at := bytes.IndexByte(c, '=')
		if at <= 0 {
			return fmt.Errorf("field %q is not NAME=VALUE", abbreviate(c)), nil
		}
		if err := r.parseField(string(c[:at]), c[at+1:]); err != nil {
			return fmt.Errorf("field %s: %w", abbreviate(c[:at]), err), nil
		}
	}
	if w.slurm["JobID"] != "" || w.slurm["JobIDRaw"] != "" {
		job, err := sacct.FromFields(func(name string) string { return w.slurm[name] }, nil)
		if err != nil {
			return err, nil
		}
		if h.Job != nil {
			return nil, h.Job(&job)
		}
		return nil, nil
	}
	for i, name := range []string{"time", "host", "user", "cmd"} {
		if w.has&(1<<i) == 0 {
			return fmt.Errorf("field %s is missing", name), nil
		}
	}
	if err := w.p.checkPlausible(); err != nil {
		return err, nil
	}
	return nil, r.emitSample(h)
}

// parseField parses one field of a tagged line. It skips unknown fields, because later releases may add some.
func (r *Reader) parseField(name string, v []byte) (err error) {
	w := &r.row
	switch name {
	case "v":
		if len(v) == 0 {
			return errors.New("it is empty")
		}
	case "time":
		w.at, err = r.parseTime(v)
		w.has |= hasTime
	case "host":
		w.host = r.name(v)
		if len(v) == 0 {
			return errors.New("it is empty")
		}
		w.has |= hasHost
	case "user":
		w.p.User = r.name(v)
		w.has |= hasUser
	case "cmd":
		w.p.Cmd = r.name(v)
		w.has |= hasCmd
	case "job":
		w.p.Job, err = parseUint(v, 64)
	case "epoch":
		w.p.Epoch, err = parseUint(v, 64)
		w.p.HasEpoch = true
	case "pid":
		err = set32(&w.p.PID, v)
	case "ppid":
		err = set32(&w.p.PPID, v)
	case "rolledup":
		err = set32(&w.p.Rolled, v)
	case "cputime_sec":
		w.p.CPU, err = parseAmount(v, 1)
		w.has |= hasCPU
	case "cpukib", "memkib":
		w.p.Virtual, err = parseAmount(v, 1024)
	case "rssanonkib":
		w.p.Resident, err = parseAmount(v, 1024)
	case "num_threads":
		var n uint64
		n, err = parseUint(v, 31)
		w.p.Threads = uint32(n) + 1
	case "data_read":
		w.p.Read, err = parseAmount(v, 1024)
	case "data_written":
		w.p.Written, err = parseAmount(v, 1024)
	default:
		return r.parseNodeField(name, v)
	}
	return err
}

// parseNodeField parses the fields of nodes and GPUs, which are empty or absent in most lines.
func (r *Reader) parseNodeField(name string, v []byte) (err error) {
	w := &r.row
	switch name {
	case "cpu%":
		w.p.Mean, err = parseAmount(v, 0.01)
	case "gpumem%", "cpu_util%":
		_, err = parseAmount(v, 1)
	case "cores":
		var n uint64
		n, err = parseUint(v, 32)
		w.cores = int(n)
	case "gpus":
		w.p.GPUs, err = r.parseCards(v)
	case "gpu%":
		w.p.GPU, err = parseAmount(v, 0.01)
	case "gpukib", "gpumemkib":
		w.p.GPUMemory, err = parseAmount(v, 1024)
	case "memtotalkib":
		w.toSystem().TotalMemory, err = parseAmount(v, 1024)
	case "load":
		w.toSystem().CPU, err = parseBusy(v)
	case "gpuinfo":
		w.toSystem().Cards, err = parseCardList(v)
	default:
		if name[0] >= 'A' && name[0] <= 'Z' { // Slurm's own fields
			if w.slurm == nil {
				w.slurm = map[string]string{}
			}
			w.slurm[name] = string(v)
		}
	}
	return err
}

func (r *Reader) emitSample(h *Handler) error {
	if h.Sample == nil {
		return nil
	}
	w := &r.row
	// Zeros are omitted: a line that has one figure of a kind has all of that kind.
	if w.has&hasCPU == 0 && w.p.Virtual < 0 && w.p.Resident < 0 && w.p.Cmd != "_heartbeat_" {
		w.p.CPU = -1
	}
	r.one[0] = w.p
	cores := w.cores
	if w.sys != nil {
		cores = max(cores, len(w.sys.CPU))
	}
	return h.Sample(&Sample{Time: w.at, Node: w.host, Cores: cores, System: w.sys, Procs: r.one[:]})
}

// parseUntagged parses a line in the format of the first releases: time, host, cores, user, job, command, cpu% and memory in
// KiB. On nodes with GPUs a bit mask of the cards, gpu%, and gpu memory in % and in KiB follow. These lines have no CPU
// time.
func (r *Reader) parseUntagged(h *Handler) (bad, fatal error) {
	c := r.cells
	if len(c) != 8 && len(c) != 12 {
		return fmt.Errorf("%d fields without names: 8 or 12 are written by the first releases of sonar, later ones write NAME=VALUE",
			len(c)), nil
	}
	at, err := r.parseTime(c[0])
	if err != nil {
		return err, nil
	}
	if len(c[1]) == 0 || len(c[3]) == 0 || len(c[5]) == 0 {
		return errors.New("host, user or command is empty"), nil
	}
	p := Process{User: r.name(c[3]), Cmd: r.name(c[5]), CPU: -1, Mean: -1, Resident: -1, Read: -1, Written: -1, GPU: -1, GPUMemory: -1}
	cores, e1 := parseUint(c[2], 32)
	job, e2 := parseUint(c[4], 64)
	_, e3 := parseAmount(c[6], 1)
	mem, e4 := parseAmount(c[7], 1024)
	if err := errors.Join(e1, e2, e3, e4); err != nil {
		return err, nil
	}
	p.Job, p.Virtual = job, mem
	if len(c) == 12 {
		share, e1 := parseAmount(c[9], 0.01)
		_, e2 := parseAmount(c[10], 1)
		gpumem, e3 := parseAmount(c[11], 1024)
		cards, e4 := parseCardMask(c[8])
		if err := errors.Join(e1, e2, e3, e4); err != nil {
			return err, nil
		}
		p.GPUs, p.GPU, p.GPUMemory = r.intern(cards), share, gpumem
	}
	if err := p.checkPlausible(); err != nil || h.Sample == nil {
		return err, nil
	}
	r.one[0] = p
	return nil, h.Sample(&Sample{Time: at, Node: r.name(c[1]), Cores: int(cores), Procs: r.one[:]})
}

func parseCardMask(b []byte) (string, error) {
	var out []byte
	for i := range len(b) {
		switch b[len(b)-1-i] {
		case '0':
		case '1':
			if out != nil {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, int64(i), 10)
		default:
			return "", fmt.Errorf("cards %q are not a mask of 0 and 1", abbreviate(b))
		}
	}
	return string(out), nil
}

// parseCards parses none, unknown, or comma-separated numbers.
func (r *Reader) parseCards(b []byte) (string, error) {
	switch string(b) {
	case "none", "unknown", "":
		return "", nil
	}
	for part := range bytes.SplitSeq(b, []byte(",")) {
		if _, err := parseUint(part, 16); err != nil {
			return "", fmt.Errorf("%q is not none, unknown or a list of numbers", abbreviate(b))
		}
	}
	return r.name(b), nil
}

func parseUint(b []byte, bits int) (uint64, error) {
	v, err := strconv.ParseUint(string(b), 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", abbreviate(b))
	}
	return v, nil
}

func set32(p *uint32, b []byte) error {
	v, err := parseUint(b, 32)
	*p = uint32(v)
	return err
}

// parseAmount parses a non-negative number and multiplies it.
func parseAmount(b []byte, by float64) (float64, error) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Errorf("%q is not a number of 0 or more", abbreviate(b))
	}
	return v * by, nil
}
