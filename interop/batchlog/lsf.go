package batchlog

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"reckon/interop/sacct"
	"reckon/interop/slurmtext"
)

// lsfLine matches an event: "type" "version" time.
var lsfLine = regexp.MustCompile(`^"[A-Z_]+" "[0-9.]+" \d+ `)

// lsfEnds are the causes of an end by the system or by people (exitInfo), the TERM_ constants of lsf/lsbatch.h.
var lsfEnds = map[string][2]string{
	"1": {"preempted", slurmtext.EndedByPreemption}, "6": {"deadline", slurmtext.EndedByDeadline},
	"5": {"timeout", slurmtext.EndedByTimeLimit}, "12": {"timeout", slurmtext.EndedByTimeLimit},
	"16": {"out_of_memory", slurmtext.EndedByMemory}, "20": {"out_of_memory", slurmtext.EndedByMemory},
	"8": userEnds, "9": userEnds, "14": userEnds, "15": userEnds, "23": userEnds, "10": {sacct.Requeued}, "11": {sacct.Requeued},
}

var userEnds = [2]string{"cancelled", slurmtext.EndedByUser}

// parseLSF parses an event JOB_FINISH.
func parseLSF(text string) (*sacct.Job, error) {
	f, err := lsfFields(text)
	if err != nil || len(f) < 3 {
		return nil, errors.Join(err, errors.New("it is no event of LSF"))
	}
	if f[0] != "JOB_FINISH" {
		return nil, nil
	}
	at := 0
	next := func(n int) string { // the last of n fields
		if at += n; at > len(f) {
			return ""
		}
		return f[at-1]
	}
	hosts := func() (list []string) {
		n, err := strconv.Atoi(next(1))
		for range n {
			if err == nil && at < len(f) {
				list = append(list, next(1))
			}
		}
		return list
	}
	j := &sacct.Job{}
	end := next(3)
	j.ID, j.UID = next(1), next(1)
	requested, submit, start := next(2), next(1), next(3)
	j.User, j.Partition = next(1), next(1)
	next(9) // resReq to jobFile
	_ = hosts()
	nodes := hosts()
	status := next(1)
	j.Name = next(2)
	user, system := next(2), next(1)
	j.Account = next(19)
	exit, index, memory, info := next(1), next(4), next(1), next(8)
	if at > len(f) {
		return nil, fmt.Errorf("%d fields, want %d: the record is cut off", len(f), at)
	}
	if index != "0" && index != "" {
		j.ID += "[" + index + "]"
	}
	j.Raw = j.ID
	for text, into := range map[*string]*time.Time{&end: &j.End, &submit: &j.Submit, &start: &j.Start} {
		if t := readField(j, "time", *text, parseUnix); t != nil {
			*into = *t
		}
	}
	switch {
	case j.End.IsZero(), len(j.Unread) > 0, j.End.Before(j.Start):
		return nil, errors.Join(append(j.Unread, fmt.Errorf("job %s has no times that can be", j.ID))...)
	case j.Start.IsZero():
		j.State = "cancelled"
		return j, nil
	}
	lsfState(j, status, exit, info)
	number := func(name, text string, by float64) *float64 {
		v := readField(j, name, text, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
		if v == nil || *v < 0 {
			return nil // -1 is unknown
		}
		*v *= by
		return v
	}
	j.CPUUser, j.CPUSystem = number("ru_utime", user, 1), number("ru_stime", system, 1)
	if j.ReqCores = number("numProcessors", requested, 1); j.CPUSystem != nil && *j.CPUSystem == 0 {
		j.CPUSystem = nil
	}
	dropZeroCPU(j)
	if v := number("maxRMem", memory, 1024); v != nil {
		j.PeakMemory = sacct.Known(*v)
	}
	slots := 0.0
	for i, host := range nodes {
		n := 1.0
		if times, name, ok := strings.Cut(host, "*"); ok {
			n, _ = strconv.ParseFloat(times, 64)
			nodes[i] = name
		}
		slots += n
	}
	setNodes(j, nodes)
	j.AllocCores = sacct.Known(slots)
	return j, nil
}

// lsfState sets the outcome of a job from a status of wait(2).
func lsfState(j *sacct.Job, status, exit, info string) {
	code := 0
	if s := readField(j, "exitStatus", exit, strconv.Atoi); s != nil {
		if code = *s >> 8 & 255; *s&127 != 0 {
			code = 128 + *s&127
		}
	}
	if setState(j, code); status == "32" && code == 0 {
		j.State = "failed"
	}
	if cause, ok := lsfEnds[info]; ok && j.State != "completed" {
		if j.State, j.EndedBy = cause[0], cause[1]; j.State == sacct.Requeued {
			j.ExitCode = nil
		}
	}
}

// lsfFields splits an event at blanks. Texts are quoted, and a quote inside is doubled.
func lsfFields(s string) ([]string, error) {
	var out []string
	for s = strings.TrimLeft(s, " "); s != ""; s = strings.TrimLeft(s, " ") {
		if s[0] != '"' {
			var word string
			word, s, _ = strings.Cut(s, " ")
			out = append(out, word)
			continue
		}
		var b strings.Builder
		for s = s[1:]; ; {
			part, rest, ok := strings.Cut(s, `"`)
			if !ok {
				return out, errors.New("a text in it has no end: the record is cut off")
			}
			b.WriteString(part)
			if s = rest; !strings.HasPrefix(rest, `"`) {
				break
			}
			b.WriteByte('"')
			s = rest[1:]
		}
		out = append(out, b.String())
	}
	return out, nil
}
