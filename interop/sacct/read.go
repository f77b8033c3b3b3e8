package sacct

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"reckon/interop/slurmtext"
)

// Options hold information that an export lacks.
type Options struct {
	// Fields are the column names if the first line does not contain them; nil tries the known orders.
	Fields []string
	// Zone is the time zone; nil is the zone of the order of fields, or of the machine.
	Zone *time.Location
	// MaxLine limits the length of a line in bytes; 0 is 1 MiB.
	MaxLine int
}

// canonicalName returns the name of a field as in sacct(1), which accepts any case.
func canonicalName(name string) string {
	for _, n := range []string{
		"JobID", "JobIDRaw", "Cluster", "User", "Account", "State", "Reason", "Start", "End", "Submit", "ElapsedRaw", "ExitCode",
		"MaxRSS", "AveRSS", "AveDiskRead", "AveDiskWrite", "NTasks", "ReqCPUS", "NCPUS", "AllocCPUS", "ReqMem", "ReqNodes", "NNodes",
		"AllocNodes",
		"SystemCPU", "UserCPU", "TotalCPU", "TimelimitRaw", "Timelimit", "NodeList", "Partition", "ReqTRES", "AllocTRES", "ReqGRES",
		"JobName", "SubmitLine", "Comment",
		"QOS", "UID", "Elapsed", "Suspended", "SuspendedRaw", "Eligible", "Group", "GID", "AdminComment", "SystemComment", "WorkDir",
	} {
		if strings.EqualFold(n, name) {
			return n
		}
	}
	return name
}

// Read parses an export and calls job for each job, including data from its steps. bad is called for lines that cannot be parsed.
func Read(in io.Reader, o Options, job func(*Job) error, bad func(line int, err error)) error {
	if o.MaxLine <= 0 {
		o.MaxLine = 1 << 20
	}
	p := parser{o: o, joiner: Joiner{Job: job}, bad: bad}
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 64<<10), o.MaxLine)
	for sc.Scan() {
		p.line++
		if err := p.parseLine(strings.TrimRight(sc.Text(), "\r")); errors.Is(err, errUnknownOrder) {
			return nil // already reported
		} else if err != nil {
			return err
		}
	}
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		bad(p.line+1, fmt.Errorf("line is longer than %d bytes; what follows it is not read", o.MaxLine))
	} else if sc.Err() != nil {
		return sc.Err()
	}
	return p.flushHeld()
}

type parser struct {
	o      Options
	joiner Joiner
	bad    func(int, error)
	line   int
	sep    string
	fields []string
	free   []int // columns that may contain the separator

	held  []string // cells of a record that continues on the next line: names may contain line breaks
	began int
	last  *Job // waits for its steps
}

// maxLines is the maximum number of lines of a record.
const maxLines = 200

// detectFields detects the separator and the fields from the first line. header is true if it contains the names.
func (p *parser) detectFields(text string) (header bool, err error) {
	p.sep = "|"
	if strings.Count(text, "^") > strings.Count(text, "|") {
		p.sep = "^"
	}
	cells := strings.Split(strings.TrimSuffix(text, p.sep), p.sep)
	header = slices.ContainsFunc(cells, func(c string) bool { return strings.EqualFold(c, "JobID") || strings.EqualFold(c, "JobIDRaw") })
	switch {
	case header:
		has := func(name string) bool {
			return slices.ContainsFunc(cells, func(c string) bool { return strings.EqualFold(strings.TrimSpace(c), name) })
		}
		if p.fields = cells; !has("Start") && !has("End") {
			p.bad(
				p.line, errors.New("it has no columns Start and End, as what sacct writes by default: export again with sacct -aP -o ALL"))
			return true, errUnknownOrder
		}
	case p.o.Fields != nil:
		p.fields = slices.Clone(p.o.Fields)
	default:
		o, err := orderOf(cells)
		if err != nil {
			p.bad(p.line, err)
			return false, errUnknownOrder
		}
		p.fields = slices.Clone(o.fields)
		if p.o.Zone == nil {
			p.o.Zone = o.zone
		}
	}
	for i, f := range p.fields {
		p.fields[i] = canonicalName(strings.TrimSpace(f))
	}
	for i, f := range p.fields { // in order: joining moves the later ones
		if slices.Contains([]string{"JobName", "SubmitLine", "Comment", "AdminComment", "SystemComment", "WorkDir"}, f) {
			p.free = append(p.free, i)
		}
	}
	return header, nil
}

// parseLine parses one line.
func (p *parser) parseLine(text string) error {
	if p.fields == nil {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		if header, err := p.detectFields(text); header || err != nil {
			return err
		}
	}
	n := len(p.fields)
	cells := strings.Split(text, p.sep)
	switch {
	case p.held == nil && strings.TrimSpace(text) == "":
		return nil
	case p.held != nil && len(cells) < n && p.line-p.began < maxLines:
		p.held[len(p.held)-1] += " " + cells[0]
		p.held = append(p.held, cells[1:]...)
	case p.held != nil: // a complete record: the previous one was truncated
		p.bad(p.began, fmt.Errorf("%d fields, want %d", len(p.held), n))
		p.held, p.began = cells, p.line
	default:
		p.held, p.began = cells, p.line
	}
	if len(p.held) < n {
		if len(p.held) > 1 || p.held[0] != "" {
			if !looksLikeJob(p.held[0]) && len(p.free) == 0 {
				p.bad(p.began, fmt.Errorf("%d fields, want %d", len(p.held), n))
				p.held = nil
			}
		}
		return nil
	}
	cells, p.held = p.held, nil
	return p.addRecord(cells)
}

func looksLikeJob(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

func (p *parser) addRecord(cells []string) error {
	n := len(p.fields)
	if len(cells) == n+1 && cells[n] == "" { // --parsable ends lines with a separator
		cells = cells[:n]
	}
	if len(cells) > n && cells[len(cells)-1] == "" && !slices.Contains(p.free, n-1) {
		cells = cells[:len(cells)-1]
	}
	var j Job
	err := fmt.Errorf("%d fields, want %d", len(cells), n)
	if len(cells) == n {
		j, err = p.parseCells(cells)
	}
	// There are more fields than columns, so a name contains the separator. The right column is
	// the one with which everything else can be parsed.
	if extra := len(cells) - n; extra > 0 {
		tries := maxTries
		if found, ok := p.joinCells(cells, 0, extra, &tries); ok {
			j, err = found, nil
		}
	}
	if err != nil {
		p.bad(p.began, err)
		return nil
	}
	j.Line = p.began
	if j.Step != "" {
		if p.last == nil || p.last.Raw != j.Raw {
			p.bad(p.began, fmt.Errorf("step %s without its job before it", slurmtext.Clip(j.ID+"."+j.Step)))
			return nil
		}
		p.last.AddStep(&j)
		return nil
	}
	if err := p.emitJob(); err != nil {
		return err
	}
	p.last = &j
	return nil
}

// maxTries limits the attempts to join excess fields.
const maxTries = 500

// joinCells merges extra cells into the free columns from one on, in every way until the result can be parsed.
func (p *parser) joinCells(cells []string, from, extra int, tries *int) (Job, bool) {
	if extra == 0 {
		*tries--
		j, err := p.parseCells(cells)
		return j, err == nil && len(j.Unread) == 0
	}
	for f := from; f < len(p.free) && *tries > 0; f++ {
		at := p.free[f]
		for n := extra; n > 0; n-- {
			if at+n >= len(cells) {
				continue
			}
			joined := append(slices.Clone(cells[:at]), strings.Join(cells[at:at+n+1], p.sep))
			if j, ok := p.joinCells(append(joined, cells[at+n+1:]...), f+1, extra-n, tries); ok {
				return j, true
			}
		}
	}
	return Job{}, false
}

func (p *parser) parseCells(cells []string) (Job, error) {
	return FromFields(func(name string) string {
		if i := slices.Index(p.fields, name); i >= 0 {
			return cells[i]
		}
		return ""
	}, p.o.Zone)
}

func (p *parser) emitJob() error {
	if p.last == nil {
		return nil
	}
	j := p.last
	p.last = nil
	return p.joiner.Add(j)
}

func (p *parser) flushHeld() error {
	if p.held != nil {
		p.bad(p.began, fmt.Errorf("%d fields, want %d: the file is cut off", len(p.held), len(p.fields)))
	}
	if err := p.emitJob(); err != nil {
		return err
	}
	return p.joiner.End()
}
