package slurmctl

import (
	"bufio"
	"io"
	"strings"

	"reckon/interop/scheduler"
	"reckon/interop/slurmtext"
)

// Text output is read with a random separator in each call, and with the job name, the only free text, as the last
// field. No name can then end a field or start a record, even if it contains line feeds.

// mark separates fields.
type mark string

// splitRecords splits output into records of n fields. Lines without a mark belong to the last field of the record before them.
func (m mark) splitRecords(r io.Reader, n int, f func([]string)) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var record []string
	flush := func() {
		if record != nil {
			f(record)
		}
		record = nil
	}
	for {
		line, err := readLine(in)
		if line != "" || err == nil {
			fields := strings.SplitN(line, string(m), n)
			if len(fields) > 1 {
				flush()
				record = fields
			} else if record != nil && len(record) == n {
				record[n-1] += "\n" + line
			} else if strings.TrimSpace(line) != "" {
				flush()
				record = fields // too few fields; f counts it
			}
		}
		if err == io.EOF {
			flush()
			return nil
		}
		if err != nil {
			flush()
			return err
		}
	}
}

// maxLineLength is the length at which a line is cut. It is enough for the node list of a large machine.
const maxLineLength = 1 << 20

func readLine(in *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		piece, more, err := in.ReadLine()
		if err != nil {
			return b.String(), err
		}
		if b.Len() < maxLineLength {
			b.Write(piece)
		}
		if !more {
			return b.String(), nil
		}
	}
}

// queueFields are the fields of squeue -o, in the order of queueRecord.
var queueFields = []string{"%i", "%A", "%u", "%a", "%P", "%T", "%r", "%V", "%S", "%e", "%l", "%D", "%C", "%b", "%N", "%j"}

// readQueueText parses the output of squeue with queueFields.
func readQueueText(r io.Reader, m mark) (jobs []scheduler.Job, got scheduler.Read, err error) {
	err = m.splitRecords(r, len(queueFields), func(f []string) {
		got.Records++
		if len(f) != len(queueFields) {
			got.Reject("a line of squeue with %d of %d fields", len(f), len(queueFields))
			return
		}
		j := scheduler.Job{
			User: f[2], Account: slurmtext.Word(f[3]), Partition: f[4], State: parseState(stringList{f[5]}), Reason: slurmtext.Word(f[6]),
			Submit: clockTime(f[7]), Start: clockTime(f[8]), End: clockTime(f[9]),
			Nodes: leadingNumber(f[11]), Cores: leadingNumber(f[12]), GPUs: 0, NodeList: slurmtext.Word(f[14]), Name: f[15],
		}
		if j.State == "" || !readJobID(&j, f[0], f[1]) {
			got.Reject("a line of squeue for the job %.40q in the state %.40q", f[0], f[5])
			return
		}
		j.Seconds = parseSpan(f[10])
		j.GPUs = slurmtext.GPUs(f[13]) * max(j.Nodes, 1) // reported per node
		j.Allocated = scheduler.Allocation{Cores: j.Cores, GPUs: j.GPUs, Nodes: j.Nodes}
		j.EndedBy, _ = slurmtext.EndedBy(j.State, "")
		dropFutureTimes(&j)
		jobs = append(jobs, j)
	})
	return jobs, got, err
}

// leadingNumber returns the number at the start of a field: "4", "1-2" (at least one).
func leadingNumber(s string) float64 {
	s, _, _ = strings.Cut(s, "-")
	return amountOrZero(s)
}

func amountOrZero(s string) float64 {
	if strings.HasSuffix(s, "K") { // squeue abbreviates large numbers
		return parseAmount(strings.TrimSuffix(s, "K"), 1000)
	}
	return parseAmount(s, 1)
}

// accountFields are the fields of sacct -o, in the order of readAccountText.
var accountFields = []string{
	"JobID", "JobIDRaw", "User", "Account", "Partition", "State", "Submit", "Eligible", "Start", "End",
	"TimelimitRaw", "ReqTRES", "AllocTRES", "NNodes", "NodeList", "ExitCode", "QOS", "UID", "Suspended", "TotalCPU", "MaxRSS", "JobName",
}

// lastField is the job name, which may contain any text.
var lastField = len(accountFields) - 1

// readAccountText parses the output of sacct -P with accountFields. A step follows its job.
func readAccountText(r io.Reader, m mark) (jobs []scheduler.Job, got scheduler.Read, err error) {
	err = m.splitRecords(r, len(accountFields), func(f []string) {
		got.Records++
		if len(f) != len(accountFields) {
			got.Reject("a line of sacct with %d of %d fields", len(f), len(accountFields))
			return
		}
		if id, step, ok := strings.Cut(f[0], "."); ok {
			if n := len(jobs) - 1; n >= 0 && isOwnStep(&jobs[n], id) {
				addStep(&jobs[n], step, f)
			} else {
				got.Reject("a step %.40q without its job before it", f[0])
			}
			return
		}
		j := scheduler.Job{
			User: f[2], Account: f[3], Partition: f[4], State: parseState(stringList{f[5]}),
			Submit: clockTime(f[6]), Eligible: clockTime(f[7]), Start: clockTime(f[8]), End: clockTime(f[9]),
			Nodes: amountOrZero(f[13]), NodeList: slurmtext.Word(f[14]), Exit: parseExitPair(f[15]),
			ExitReduced: slurmtext.ExitReduced(f[15]),
			QOS:         slurmtext.Word(f[16]),
			UID:         slurmtext.Word(f[17]), Suspended: parseSpan(f[18]), Name: f[lastField],
		}
		_, rest := slurmtext.State(f[5])
		if j.EndedBy, j.EndedByUser = slurmtext.EndedBy(j.State, rest); j.EndedByUser != "" && j.EndedByUser == j.UID {
			j.EndedByUser = j.User
		} else if j.EndedByUser == "0" {
			j.EndedByUser = "root"
		}
		if j.State == "" || !readJobID(&j, f[0], f[1]) {
			got.Reject("a line of sacct for the job %.40q in the state %.40q", f[0], f[5])
			return
		}
		if v, ok := parseFloat(f[10]); ok {
			j.Seconds = 60 * v
		}
		setRequest(&j, slurmtext.ReadTRES(f[11]))
		setAllocation(&j, slurmtext.ReadTRES(f[12]))
		if j.Cores == 0 {
			j.Cores, j.MemoryBytes, j.GPUs = j.Allocated.Cores, j.Allocated.MemoryBytes, j.Allocated.GPUs
		}
		closePast(&j)
		jobs = append(jobs, j)
	})
	return jobs, got, err
}

// isOwnStep reports whether the id in front of a step is the job's.
func isOwnStep(j *scheduler.Job, id string) bool {
	first, _, _ := strings.Cut(id, "_[")
	return first == j.ID
}

func addStep(j *scheduler.Job, id string, f []string) {
	j.StepCount++
	s := scheduler.Step{
		ID: id, Name: f[lastField], State: parseState(stringList{f[5]}), NodeList: slurmtext.Word(f[14]),
		Start: clockTime(f[8]), End: clockTime(f[9]), Exit: parseExitPair(f[15]), Cores: slurmtext.ReadTRES(f[12]).Cores,
	}
	if v, err := slurmtext.Duration(f[19]); err == nil {
		s.CPUSeconds = &v
	}
	if v := parseAmount(f[20], 1); v > 0 {
		s.MemoryPeak = &v
	}
	j.Steps = scheduler.KeepStep(j.Steps, s)
}

// parseExitPair parses "3:0", the code and the signal.
func parseExitPair(s string) *int {
	code, err := slurmtext.Exit(s)
	if err != nil || !strings.Contains(s, ":") {
		return nil
	}
	return code
}
