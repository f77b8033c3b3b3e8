// Package batchlog parses the accounting of batch systems other than Slurm: of PBS Professional, OpenPBS and Torque ("Accounting Log" in
// the PBS reference guide), of Grid Engine and Univa's (accounting(5)), and of LSF (lsb.acct(5)).
//
// Jobs have the same names as in package workload/batch, so that a measured job and its accounting are one workload. Figures are SI base
// units. Missing figures are unknown, never zero. None of the formats has steps. Grid Engine and LSF do not write the allocated memory.
// Only PBS counts GPUs reliably. Grid Engine names the nodes of parallel jobs only if each node has a record.
//
// Input is read as a stream. Readers share no state.
package batchlog

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"reckon/interop/sacct"
	"reckon/interop/slurmtext"
	"reckon/workload"
)

// maxLine is the maximum length of a record in bytes. Records of LSF contain the script of the job.
const maxLine = 16 << 20

// Format returns the kind of jobs in an input by its beginning; empty if it is none of these.
func Format(head []byte) workload.Kind {
	for line := range bytes.Lines(head) {
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case text == "" || text[0] == '#':
			continue
		case pbsLine.MatchString(text):
			return workload.PBS
		case lsfLine.MatchString(text):
			return workload.LSF
		case isGrid(strings.Split(text, ":")):
			return workload.GridEngine
		}
		break
	}
	return ""
}

// Read parses the accounting of jobs of a kind and calls job for each. bad is called for lines that cannot be parsed.
func Read(in io.Reader, kind workload.Kind, job func(*sacct.Job) error, bad func(line int, err error)) error {
	parse := map[workload.Kind]func(string) (*sacct.Job, error){
		workload.PBS: parsePBS, workload.GridEngine: (&grid{}).parseJob, workload.LSF: parseLSF,
	}[kind]
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimRight(sc.Text(), "\r")
		if strings.TrimSpace(text) == "" || text[0] == '#' {
			continue
		}
		j, err := parse(text)
		if err != nil {
			bad(line, err)
		}
		if err != nil || j == nil {
			continue
		}
		j.Kind, j.Line = kind, line
		if err := job(j); err != nil {
			return err
		}
	}
	return sc.Err()
}

// readField reads a field of a record. It skips an unreadable field and lists it.
func readField[T any](j *sacct.Job, name, text string, parse func(string) (T, error)) *T {
	if text == "" {
		return nil
	}
	v, err := parse(text)
	if err != nil {
		j.Unread = append(j.Unread, fmt.Errorf("job %s: %s: %w", j.ID, name, err))
		return nil
	}
	return &v
}

// parseUnix parses seconds since the Unix epoch, or Univa's milliseconds; 0 is no time.
func parseUnix(text string) (time.Time, error) {
	if len(text) == len("1760000000000") {
		text = text[:len("1760000000")]
	}
	return slurmtext.Time(text, time.UTC)
}

// setState sets the state of a job by its exit code, 128 and above being a signal.
func setState(j *sacct.Job, code int) {
	if j.State = "completed"; code != 0 {
		j.State = "failed"
	}
	j.ExitCode = &code
}

// dropZeroCPU drops a CPU time of 0 of a run of more than a minute: nothing measured it.
func dropZeroCPU(j *sacct.Job) {
	if v := j.CPUUser; v != nil && *v == 0 && j.End.Sub(j.Start) > time.Minute {
		j.CPUUser = nil
	}
}

// setNodes sets the nodes of a job.
func setNodes(j *sacct.Job, nodes []string) {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	j.Nodes, j.AllocNodes = strings.Join(nodes, ","), sacct.Known(float64(len(nodes)))
}
