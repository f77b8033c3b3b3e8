package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/internal/buildinfo"
	"reckon/interop/sonar"
	"reckon/web/client"
	"reckon/workload"
)

type exportOptions struct {
	since, until, step, cluster string
	kind                        *choice
}

func newExport(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export measurements in another program's format",
		Long: `export writes history in the format of another program, so that tools for that
format continue to work.`,
		Example: `  reckon export sonar --since 1d`,
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(newExportSonar(g))
	return cmd
}

func newExportSonar(g *globals) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "sonar",
		Short: "Write the JSON that sonar writes",
		Long: `sonar writes JSON as sonar does, a document on each line, for sonalyze and other
programs that read it. --type sample has a document for each node and step, with a process
for each program of a job, because reckon keeps programs, not processes. --type sysinfo has
a document for each node, and job those of the batch system.

Workloads that are neither jobs nor process groups get a number that no process has.
Without --since it writes the last hour. A time is a duration before now (30m, 2h,
7d), a date, RFC 3339, Unix seconds, today, 14:00, now, or now-2hours.`,
		Example: `  reckon export sonar --since 1d --step 5m > sample.json
  reckon export sonar --type job --since 2026-11-01 --cluster fox.example > jobs.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runExportSonar(cmd.Context(), g, &o) },
	}
	o.since = "1h"
	f := cmd.Flags()
	o.kind = &choice{value: "sample", words: []string{"sample", "sysinfo", "job"}}
	f.Var(o.kind, "type", "kind of record to write: sample, sysinfo, job")
	completeWords(cmd, "type", o.kind.words...)
	g.shared.addFlag(cmd, "since", &o.since)
	g.shared.addFlag(cmd, "until", &o.until)
	f.StringVar(&o.step, "step", "5m", "time between two samples of a node")
	f.StringVar(&o.cluster, "cluster", "", "name of the cluster (default the site)")
	return cmd
}

func runExportSonar(ctx context.Context, g *globals, o *exportOptions) error {
	now := g.now()
	since, err := parseTime("since", o.since, now)
	if err != nil {
		return err
	}
	until := now
	if o.until != "" {
		if until, err = parseTime("until", o.until, now); err != nil {
			return err
		}
	}
	step, err := parseSpan("step", o.step)
	if err != nil {
		return err
	}
	if step < time.Second || !until.After(since) {
		return &usageError{errors.New("--step must be at least 1s, and --until after --since")}
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(g.stdout)
	x := &sonarExport{client: c, cluster: o.cluster, totals: map[[3]string]jobTotals{}}
	x.write = func(kind string, attributes any) error {
		x.written++
		return sonar.Write(out, buildinfo.Get().Version, kind, attributes)
	}
	switch o.kind.value {
	case "sysinfo":
		err = x.exportSysinfo(ctx, now)
	case "job":
		err = x.exportJobs(ctx, since, until, now)
	default:
		err = x.exportSamples(ctx, since, until, step)
	}
	if err == nil && x.nameless {
		fmt.Fprintln(g.stderr, "reckon: nodes without a site were left out: give the name of the cluster by --cluster")
	}
	if err == nil && x.nameless && x.written == 0 {
		err = errors.New("nothing was written")
	}
	return errors.Join(err, out.Flush())
}

type sonarExport struct {
	client   *client.Client
	cluster  string
	write    func(kind string, attributes any) error
	nameless bool
	written  int // documents
	totals   map[[3]string]jobTotals
}

// clusterName returns the name of the cluster; in sonar's format it must not be empty.
func (x *sonarExport) clusterName(site string) string {
	n := cmp.Or(x.cluster, site)
	x.nameless = x.nameless || n == ""
	return n
}

// exportChunk is the time range per query.
const exportChunk = 2 * time.Hour

func (x *sonarExport) exportSamples(ctx context.Context, since, until time.Time, step time.Duration) error {
	since = since.Truncate(step)
	for from := since; !from.After(until); from = from.Add(max(exportChunk.Truncate(step), step)) {
		to := from.Add(max(exportChunk.Truncate(step), step) - step)
		if to.After(until) {
			to = until.Truncate(step)
		}
		if to.Before(from) {
			break
		}
		if err := x.exportRange(ctx, from, to, step); err != nil {
			return err
		}
	}
	return nil
}

type readingKey struct {
	at         int64
	site, node string
}

// sonarReading is a sample being built: figures by job, and by program of a job.
type sonarReading struct {
	sonar.OutSample
	jobs map[string]*jobFigures
}

type jobFigures struct {
	owner, command         string
	memory, procs, threads float64
	jobTotals
	gpus map[string]*[2]float64 // share, bytes
}

// jobTotals are the counters of a job on a node: of each part, and of each program of a part.
type jobTotals struct {
	cpu, rd, wr map[string]float64
	programs    map[[2]string]float64
	start       float64 // Unix seconds; 0 if unknown
	at          int64   // time of the reading
}

func newJobTotals() jobTotals {
	return jobTotals{cpu: map[string]float64{}, rd: map[string]float64{}, wr: map[string]float64{}, programs: map[[2]string]float64{}}
}

// carrySeconds is the time in seconds for which a job without new samples keeps its last counters in the readings.
// Without it, the use of its ended parts would disappear.
const carrySeconds = 3600

// addEnded adds the use of ended parts to a job's later readings. In sonar's format, a reading includes all use so far,
// because sonar counts children with their parents.
func (x *sonarExport) addEnded(k readingKey, id string, j *jobFigures) {
	key := [3]string{k.site, k.node, id}
	old, known := x.totals[key]
	if !known || k.at-old.at > carrySeconds {
		old = newJobTotals()
	}
	maps.Copy(old.cpu, j.cpu)
	maps.Copy(old.rd, j.rd)
	maps.Copy(old.wr, j.wr)
	maps.Copy(old.programs, j.programs)
	if j.start > 0 && (old.start == 0 || j.start < old.start) {
		old.start = j.start
	}
	old.at = k.at
	x.totals[key] = old
	j.jobTotals = old
}

func sumParts(parts map[string]float64) (sum float64) {
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		sum += parts[part]
	}
	return sum
}

func (x *sonarExport) exportRange(ctx context.Context, from, to time.Time, step time.Duration) error {
	all := map[readingKey]*sonarReading{}
	at := func(l map[string]string, t time.Time) *sonarReading {
		k := readingKey{t.Unix(), l["site"], l["node"]}
		r := all[k]
		if r == nil {
			r = &sonarReading{jobs: map[string]*jobFigures{}}
			all[k] = r
		}
		return r
	}
	job := func(l map[string]string, t time.Time) *jobFigures {
		r := at(l, t)
		j := r.jobs[l["workload"]]
		if j == nil {
			j = &jobFigures{jobTotals: newJobTotals(), gpus: map[string]*[2]float64{}}
			r.jobs[l["workload"]] = j
		}
		j.owner = cmp.Or(j.owner, l["owner"])
		return j
	}
	gpu := func(l map[string]string, t time.Time) *[2]float64 {
		j := job(l, t)
		if j.gpus[l["device"]] == nil {
			j.gpus[l["device"]] = new([2]float64)
		}
		return j.gpus[l["device"]]
	}
	const by = "sum by (site, node, workload, owner"
	// A counter that ended within the step before a reading is included with its last value.
	last := func(series string) string {
		return fmt.Sprintf("(%s or last_over_time(%s[%ds]))", series, series, int(math.Ceil(step.Seconds())))
	}
	window := fmt.Sprintf("[%ds]", int(max(2*step, time.Minute).Seconds()))
	for _, q := range []struct {
		expr string
		take func(l map[string]string, t time.Time, v float64)
	}{
		{by + `, part) ` + last(`reckon_workload_cpu_seconds_total{node!=""}`),
			func(l map[string]string, t time.Time, v float64) { job(l, t).cpu[l["part"]] = v }},
		{by + `, part, command) ` + last(`reckon_command_cpu_seconds_total{node!=""}`), func(l map[string]string, t time.Time, v float64) {
			job(l, t).programs[[2]string{l["part"], l["command"]}] = v
		}},
		{by + `) (reckon_workload_memory_bytes{node!="",type!="file"})`,
			func(l map[string]string, t time.Time, v float64) { job(l, t).memory = v }},
		{`min by (site, node, workload, owner) (reckon_workload_start_time_seconds{node!=""})`,
			func(l map[string]string, t time.Time, v float64) { job(l, t).start = v }},
		{by + `) (reckon_workload_processes{node!=""})`, func(l map[string]string, t time.Time, v float64) { job(l, t).procs = v }},
		{by + `) (reckon_workload_threads{node!=""})`, func(l map[string]string, t time.Time, v float64) { job(l, t).threads = v }},
		{by + `, part) ` + last(`reckon_workload_io_bytes_total{node!="",direction="read"}`),
			func(l map[string]string, t time.Time, v float64) { job(l, t).rd[l["part"]] = v }},
		{by + `, part) ` + last(`reckon_workload_io_bytes_total{node!="",direction="write"}`),
			func(l map[string]string, t time.Time, v float64) { job(l, t).wr[l["part"]] = v }},
		{by + `, device) (rate(reckon_workload_gpu_seconds_total{node!=""}` + window + `))`,
			func(l map[string]string, t time.Time, v float64) { gpu(l, t)[0] = v }},
		{by + `, device) (reckon_workload_gpu_memory_bytes{node!=""})`,
			func(l map[string]string, t time.Time, v float64) { gpu(l, t)[1] = v }},
		{by + `, command) (reckon_workload_info{node!=""})`,
			func(l map[string]string, t time.Time, _ float64) { job(l, t).command = l["command"] }},
		{`sum by (site, node, cpu) (node_cpu_seconds_total{mode!~"idle|iowait|guest|guest_nice"})`,
			func(l map[string]string, t time.Time, v float64) {
				r := at(l, t)
				n, err := strconv.Atoi(l["cpu"])
				if err != nil || n < 0 || n >= 1<<16 {
					return
				}
				for len(r.System.CPUs) <= n {
					r.System.CPUs = append(r.System.CPUs, 0)
				}
				r.System.CPUs[n] = uint64(v)
			}},
		{`node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes`,
			func(l map[string]string, t time.Time, v float64) { at(l, t).System.UsedMemory = toKiB(v) }},
		{`node_load1`, func(l map[string]string, t time.Time, v float64) { at(l, t).System.Load1 = v }},
		{`node_boot_time_seconds`, func(l map[string]string, t time.Time, v float64) {
			at(l, t).System.Boot = sonar.Stamp(time.Unix(int64(v), 0))
		}},
	} {
		res, err := x.client.QueryRange(ctx, q.expr, from, to, step)
		if err != nil {
			return fmt.Errorf("ask for %s: %w", q.expr, err)
		}
		for _, s := range res.Series {
			if s.Metric["node"] == "" {
				continue
			}
			for _, p := range s.Samples {
				if v, err := p.Float(); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0 {
					q.take(s.Metric, p.Time, v)
				}
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b readingKey) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.site, b.site), strings.Compare(a.node, b.node))
	})
	for _, k := range keys {
		r := all[k]
		if r.Cluster = x.clusterName(k.site); r.Cluster == "" {
			continue
		}
		r.Time, r.Node = sonar.Stamp(time.Unix(k.at, 0)), k.node
		for _, id := range slices.Sorted(maps.Keys(r.jobs)) {
			x.addEnded(k, id, r.jobs[id])
			r.Jobs = append(r.Jobs, r.jobs[id].toSonarJob(id, float64(k.at)))
		}
		if err := x.write("sample", r.OutSample); err != nil {
			return err
		}
	}
	maps.DeleteFunc(x.totals, func(_ [3]string, t jobTotals) bool { return to.Unix()-t.at > carrySeconds })
	return nil
}

// toSonarJob converts the figures of a job to one sonar process per program. Figures known only for the whole job go
// to the program with the most use.
func (j *jobFigures) toSonarJob(id string, at float64) *sonar.OutJob {
	o := &sonar.OutJob{User: cmp.Or(j.owner, "_user_unknown")}
	o.Job, o.Epoch = sonar.Number(id)
	rest, programs := sumParts(j.cpu), map[string]float64{}
	for of, v := range j.programs {
		programs[of[1]] += v
	}
	for _, cmd := range slices.SortedFunc(maps.Keys(programs), func(a, b string) int {
		return cmp.Or(cmp.Compare(programs[b], programs[a]), strings.Compare(a, b))
	}) {
		o.Processes = append(o.Processes, &sonar.OutProcess{Cmd: cmd, CPUTime: uint64(math.Round(programs[cmd]))})
		rest -= programs[cmd]
	}
	if len(o.Processes) == 0 {
		o.Processes = []*sonar.OutProcess{{Cmd: cmp.Or(j.command, "other")}}
	}
	lead := o.Processes[0]
	if rest > 0 { // the counters of programs are sampled
		lead.CPUTime += uint64(math.Round(rest))
	}
	for _, p := range o.Processes {
		if j.start > 0 && at > j.start {
			p.CPUMean = math.Round(float64(p.CPUTime)/(at-j.start)*100_000) / 1000
		}
	}
	lead.Resident, lead.Read, lead.Written = toKiB(j.memory), toKiB(sumParts(j.rd)), toKiB(sumParts(j.wr))
	if more := j.procs - float64(len(o.Processes)); more > 0 {
		lead.Rolled = uint64(more)
	}
	if j.threads > j.procs && j.procs > 0 {
		lead.Threads = uint64(j.threads - j.procs)
	}
	for _, device := range slices.Sorted(maps.Keys(j.gpus)) {
		g := sonar.OutGPU{UUID: cmp.Or(device, "unknown"), Util: math.Round(j.gpus[device][0]*1000) / 10, Memory: toKiB(j.gpus[device][1])}
		if n, err := strconv.ParseUint(device, 10, 16); err == nil {
			g.Index = n
		}
		lead.GPUs = append(lead.GPUs, g)
	}
	return o
}

func toKiB(bytes float64) uint64 { return uint64(math.Round(bytes / 1024)) }

func (x *sonarExport) exportSysinfo(ctx context.Context, now time.Time) error {
	list, err := x.client.Nodes(ctx)
	if err != nil {
		return err
	}
	uname, err := x.client.Query(ctx, `last_over_time(node_uname_info[1d])`, now)
	if err != nil {
		return err
	}
	for _, n := range list.Nodes {
		s := sonar.OutSysinfo{Time: sonar.Stamp(n.Seen), Cluster: x.clusterName(n.Site), Node: n.Node, Sockets: 1, ThreadsPerCore: 1}
		if s.Cluster == "" || n.Cores == nil || n.MemoryBytes == nil {
			continue // sonar's readers reject a node without this figure
		}
		s.CoresPerSocket, s.Memory = uint64(*n.Cores), toKiB(*n.MemoryBytes)
		for _, u := range uname.Series {
			if u.Metric["node"] == n.Node && u.Metric["site"] == n.Site {
				s.OS, s.Release, s.Architecture = u.Metric["sysname"], u.Metric["release"], u.Metric["machine"]
			}
		}
		s.OS, s.Release, s.Architecture = cmp.Or(s.OS, "unknown"), cmp.Or(s.Release, "unknown"), cmp.Or(s.Architecture, "unknown")
		if err := x.write("sysinfo", s); err != nil {
			return err
		}
	}
	return nil
}

func (x *sonarExport) exportJobs(ctx context.Context, since, until, now time.Time) error {
	bySite := map[string][]sonar.OutSlurmJob{}
	const page = 10_000
	for offset := 0; ; offset += page {
		list, err := x.client.Workloads(ctx,
			client.Filter{Kinds: []string{string(workload.Slurm)}, Since: since, Until: until, Sort: "start", Limit: page, Offset: offset})
		if err != nil {
			return err
		}
		for i := range list.Workloads {
			if name := x.clusterName(list.Workloads[i].Site); name != "" {
				bySite[name] = append(bySite[name], toSlurmJob(&list.Workloads[i]))
			}
		}
		if len(list.Workloads) < page {
			break
		}
	}
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		for part := range slices.Chunk(bySite[site], 1000) {
			if err := x.write("job", sonar.OutJobs{Time: sonar.Stamp(now), Cluster: site, Jobs: part}); err != nil {
				return err
			}
		}
	}
	return nil
}

func toSlurmJob(w *client.Workload) sonar.OutSlurmJob {
	s := sonar.OutSlurmJob{Name: w.Name, User: w.Owner, Account: w.Account, Partition: w.Partition, Nodes: w.Nodes,
		State: strings.ToUpper(w.State)}
	s.JobID, _ = sonar.Number(w.ID)
	if array, task, ok := strings.Cut(strings.TrimPrefix(w.ID, "slurm/"), "_"); ok {
		s.ArrayJobID, _ = strconv.ParseUint(array, 10, 64)
		s.ArrayTaskID, _ = strconv.ParseUint(task, 10, 64)
	}
	if s.State == "" {
		s.State = "COMPLETED"
		if w.Running {
			s.State = "RUNNING"
		}
	}
	if w.Submit != nil {
		s.Submit = sonar.Stamp(*w.Submit)
	}
	s.Submit = cmp.Or(s.Submit, sonar.Stamp(w.Start)) // a required field
	s.Start = sonar.Stamp(w.Start)
	if w.End != nil {
		s.End = sonar.Stamp(*w.End)
	}
	if w.ExitCode != nil && *w.ExitCode > 0 {
		s.ExitCode = uint64(*w.ExitCode)
	}
	whole := func(v *float64) uint64 {
		if v == nil || *v < 0 {
			return 0
		}
		return uint64(math.Round(*v))
	}
	s.ReqCPUs, s.ReqNodes = whole(w.RequestCores), whole(w.RequestNodes)
	if w.RequestMemoryBytes != nil {
		s.ReqMemory = toKiB(*w.RequestMemoryBytes / float64(max(s.ReqNodes, 1)))
	}
	if w.RequestSeconds != nil {
		s.TimeLimit = uint64(math.Ceil(*w.RequestSeconds/60)) + 2
	}
	var tres []string
	for _, t := range []struct {
		name string
		v    uint64
	}{{"cpu", s.ReqCPUs}, {"gres/gpu", whole(w.RequestGPUs)}, {"node", s.ReqNodes}} {
		if t.v > 0 {
			tres = append(tres, fmt.Sprintf("%s=%d", t.name, t.v))
		}
	}
	s.Sacct = &sonar.OutSacct{AllocTRES: strings.Join(tres, ","), ElapsedRaw: whole(&w.WallSeconds), SystemCPU: whole(w.CPUSystemSeconds),
		UserCPU: whole(w.CPUUserSeconds)}
	if w.CPUUserSeconds == nil {
		s.Sacct.UserCPU = whole(w.CPUSeconds)
	}
	if memory := cmp.Or(w.MemoryNeededPeakBytes, w.MemoryPeakBytes); memory != nil {
		s.Sacct.MaxRSS = toKiB(*memory)
	}
	return s
}
