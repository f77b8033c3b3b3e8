package batchlog

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"reckon/interop/sacct"
	"reckon/interop/slurmtext"
)

// pbsLine matches a record: time;type;id;attributes.
var pbsLine = regexp.MustCompile(`^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(\.\d+)?;[A-Za-z];[^;]*;`)

// parsePBS parses a record: of a job that ended (E), or of a run that is followed by another (R).
func parsePBS(text string) (*sacct.Job, error) {
	parts := strings.SplitN(text, ";", 4)
	if !pbsLine.MatchString(text) {
		return nil, errors.New("it is no record time;type;id;attributes of PBS")
	}
	id, _, _ := strings.Cut(parts[2], ".")
	if parts[1] != "E" && parts[1] != "R" || strings.HasSuffix(id, "[]") { // the tasks of an array have records of their own
		return nil, nil
	}
	a := pbsAttributes(parts[3])
	if _, err := slurmtext.ReadID(strings.Split(id, "[")[0]); err != nil {
		return nil, err
	}
	j := &sacct.Job{ID: id, Raw: id, User: a["user"], Account: a["account"], Partition: a["queue"], Name: a["jobname"], QOS: a["qos"]}
	if p := a["project"]; j.Account == "" && p != "_pbs_project_default" {
		j.Account = p
	}
	submit := readField(j, "ctime", cmp.Or(a["ctime"], a["qtime"]), parseUnix)
	start, end := readField(j, "start", a["start"], parseUnix), readField(j, "end", a["end"], parseUnix)
	if start == nil || end == nil || start.IsZero() || end.IsZero() {
		if parts[1] == "R" {
			return nil, nil
		}
		return nil, errors.Join(append(j.Unread, fmt.Errorf("job %s has no start or no end", id))...)
	}
	if j.Start, j.End = *start, *end; j.End.Before(j.Start) {
		return nil, fmt.Errorf("job %s ended before its start", id)
	}
	if submit != nil {
		j.Submit = *submit
	}
	cpu := readField(j, "resources_used.cput", a["resources_used.cput"], slurmtext.Duration)
	j.CPUUser = cpu
	dropZeroCPU(j)
	j.PeakMemory = readField(j, "resources_used.mem", a["resources_used.mem"], pbsSize)
	j.TimeLimit = readField(j, "Resource_List.walltime", a["Resource_List.walltime"], slurmtext.Duration)
	j.ReqMemory = readField(j, "Resource_List.mem", a["Resource_List.mem"], pbsSize)
	pbsResources(j, a)
	switch code := readField(j, "Exit_status", a["Exit_status"], strconv.Atoi); {
	case parts[1] == "R":
		j.State = sacct.Requeued
	case code == nil:
		j.State = "completed"
	case *code < 0: // the job was ended by the system itself
		j.State = "failed"
	case *code >= 256:
		setState(j, 128+*code-256)
	default:
		setState(j, *code)
	}
	if wall := j.End.Sub(j.Start).Seconds(); j.State == "failed" && j.TimeLimit != nil && wall >= *j.TimeLimit {
		j.State, j.EndedBy = "timeout", slurmtext.EndedByTimeLimit
	}
	return j, nil
}

// pbsAttributes splits attributes key=value. A value with blanks is in quotes, or runs up to the next key.
func pbsAttributes(text string) map[string]string {
	out, last := map[string]string{}, ""
	for word := range strings.SplitSeq(text, " ") {
		key, value, ok := strings.Cut(word, "=")
		if !ok || strings.HasPrefix(out[last], `"`) && !strings.HasSuffix(out[last], `"`) {
			out[last] += " " + word
			continue
		}
		if _, again := out[key]; !again {
			last, out[key] = key, value
		}
	}
	for k, v := range out {
		out[k] = strings.Trim(v, `"`)
	}
	return out
}

// pbsSize parses 15240kb, 1993mb, 12.27M and 100b, in bytes; a word of PBS has eight.
func pbsSize(s string) (float64, error) {
	by := 1.0
	s = strings.TrimSuffix(s, "b")
	if rest, ok := strings.CutSuffix(s, "w"); ok {
		s, by = rest, 8
	}
	v, err := slurmtext.Size(s, 1)
	return v * by, err
}

// pbsResources sets the allocation of a job from the attributes a. It uses exec_vnode,
// (c1:ncpus=13)+(c2:ncpus=13:ngpus=1), or else exec_host, c1/0*13+c2/0-7+c3/1, or else the request, 4:ppn=8:gpus=1.
func pbsResources(j *sacct.Job, a map[string]string) {
	given := map[string]float64{}
	for chunk := range strings.SplitSeq(a["exec_vnode"], "+") {
		addChunk(given, strings.Trim(chunk, "()"), 1)
	}
	slots := 0.0
	var nodes []string
	for item := range strings.SplitSeq(a["exec_host"], "+") {
		host, list, ok := strings.Cut(item, "/")
		if host != "" {
			nodes = append(nodes, host)
		}
		if _, times, many := strings.Cut(list, "*"); many {
			n, _ := strconv.ParseFloat(times, 64) // 0 is unknown
			slots += n
		} else if ok {
			slots += float64(slurmtext.CountTasks(list))
		}
	}
	asked := map[string]float64{}
	for chunk := range strings.SplitSeq(cmp.Or(a["Resource_List.nodes"], a["Resource_List.nodect"]), "+") {
		count, _, some := strings.Cut(chunk, ":")
		n, err := strconv.ParseFloat(count, 64)
		if err != nil { // the name of a node
			n = 1
		}
		if some {
			addChunk(asked, chunk, n)
		}
	}
	number := func(name string) float64 {
		v, _ := strconv.ParseFloat(a[name], 64) // 0 is unknown
		return v
	}
	setNodes(j, nodes)
	requested := number("Resource_List.ncpus")
	j.AllocCores = sacct.Known(cmp.Or(given["ncpus"], slots, asked["ppn"], number("resources_used.ncpus"), requested))
	j.ReqCores, j.ReqNodes = sacct.Known(requested), sacct.Known(number("Resource_List.nodect"))
	if j.ReqCores == nil || slots > requested && given["ncpus"] == 0 { // Torque: ncpus is of a node
		j.ReqCores = j.AllocCores
	}
	j.AllocMemory = sacct.Known(given["mem"])
	j.AllocGPUs = sacct.Known(cmp.Or(given["ngpus"], asked["gpus"]+asked["gpu"], number("Resource_List.ngpus"),
		number("Resource_List.gpus"),
		number("Resource_List.gpu")))
	j.ReqGPUs = j.AllocGPUs
}

// addChunk adds the resources of NAME:key=value:... multiplied by times.
func addChunk(to map[string]float64, chunk string, times float64) {
	for _, item := range strings.Split(chunk, ":")[1:] {
		key, value, _ := strings.Cut(item, "=")
		if v, err := pbsSize(value); err == nil {
			to[key] += times * v
		}
	}
}
