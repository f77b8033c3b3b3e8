package efficiency

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"reckon/figure"
	"reckon/internal/phrase/phrasetest"
)

func at(v float64) *float64 { return &v }
func code(v int) *int       { return &v }

// spoken formats the verdicts on a workload: severity, kind and sentence of each.
func spoken(u Usage) string {
	var out []string
	for _, v := range Judge(u) {
		if loose := phrasetest.Loose(&v.Sentence, "95"); loose != "" {
			panic(loose)
		}
		out = append(out, string(v.Severity)+" "+v.Kind+": "+v.Text)
	}
	return strings.Join(out, "\n")
}

// batch is an hour of a successful job with given cores that it used in part.
func batch(given, used, p95 float64, edit ...func(*Usage)) Usage {
	u := Usage{Run: figure.Run{State: "completed", ExitCode: code(0), Row: figure.Row{CPUSeconds: at(3600 * used), CoresP95: at(p95)}}, Batch: true, WallSeconds: 3600, Cores: at(given)}
	for _, e := range edit {
		e(&u)
	}
	return u
}

// request is an hour of a successful service that requested some cores.
func request(asked, used, p95 float64) Usage {
	return batch(asked, used, p95, func(u *Usage) { u.Batch, u.State = false, "" })
}

// TestJudge checks labelled cases against the complete set of verdicts that an expert would give.
func TestJudge(t *testing.T) {
	const gib = 1 << 30
	memory := func(given, needed, peak float64, edit ...func(*Usage)) Usage {
		return batch(1, 0.9, 1, append([]func(*Usage){func(u *Usage) {
			u.Cores, u.Memory, u.MemoryNeededPeakBytes, u.MemoryPeakBytes = nil, at(given), at(needed), at(peak)
		}}, edit...)...)
	}
	ended := func(state string, exit int, edit ...func(*Usage)) Usage {
		return batch(1, 0.9, 1, append([]func(*Usage){func(u *Usage) { u.Cores, u.State, u.ExitCode = nil, state, code(exit) }}, edit...)...)
	}
	accounted := func(u *Usage) { u.Exactness = figure.Degrees{"exit_code": figure.Estimated} }
	gpu := func(gpus, busy float64, edit ...func(*Usage)) Usage {
		return batch(1, 0.9, 1, append([]func(*Usage){func(u *Usage) { u.Cores, u.GPUs, u.GPUSeconds = nil, at(gpus), at(busy*gpus*3600) }}, edit...)...)
	}
	engines := func(shares map[string]float64, edit ...func(*Usage)) Usage {
		return gpu(1, 0.5, append([]func(*Usage){func(u *Usage) { u.GPUEngines = &GPUEngines{BusySeconds: 1800, Shares: shares} }}, edit...)...)
	}
	const half = "info gpu: its GPU was busy 50 % of the time"
	bare := func(edit func(*Usage)) Usage { return batch(1, 0.9, 1, func(u *Usage) { u.Cores = nil }, edit) }
	for name, c := range map[string]struct {
		u    Usage
		want string
	}{
		// Cores.
		"too many cores":        {batch(64, 8, 8), "warning cores: it used 8 of the 64 cores it was allocated on average (12 %), and no more than 8 for 95 % of the time"},
		"p95 at half":           {batch(4, 1.5, 2), "warning cores: it used 1.5 of the 4 cores it was allocated on average (38 %), and no more than 2 for 95 % of the time"},
		"less than a second":    {batch(1, 0.9, 1, func(u *Usage) { u.WallSeconds = 0 }), "info short: it ran for less than a second: too short to judge how well it used what it was allocated"},
		"p95 unknown":           {batch(4, 1.9, 2.1, func(u *Usage) { u.CoresP95 = nil }), "warning cores: it used 1.9 of the 4 cores it was allocated on average (48 %); how many at a time was not measured"},
		"cancelled by a number": {ended("cancelled", 0, func(u *Usage) { u.EndedByUser = "2103426" }), "info cancelled: it was cancelled by user ID 2103426 after 1 h"},
		"p95 above half":        {batch(4, 1.9, 2.1), "warning cores: it used 1.9 of the 4 cores it was allocated on average (48 %), though at times more: parts of it do not run in parallel"},
		"mean at half":          {batch(4, 2, 2.1), "info cores: it used 2 of the 4 cores it was allocated on average (50 %)"},
		"below 80 %":            {batch(10, 7.9, 9), "info cores: it used 7.9 of the 10 cores it was allocated on average (79 %)"},
		"80 %":                  {batch(10, 8, 9), "good cores: it used 8 of the 10 cores it was allocated on average (80 %)"},
		"one core":              {batch(1, 0.3, 0.4), "info cores: it used its one core 30 % of the time"},
		"no batch":              {batch(8, 1, 1, func(u *Usage) { u.Batch = false }), "warning cores: it used 1 of the 8 cores it asked for on average (12 %), and no more than 1 for 95 % of the time"},
		"no request":            {batch(2, 0.1, 1, func(u *Usage) { u.CoresImplied = true }), "info cores: it used 0.1 of the 2 cores of its node on average (5 %); it requested none"},
		"a lower bound":         {batch(8, 0.02, 0.1, func(u *Usage) { u.Exactness = figure.Degrees{"cpu_seconds": figure.AtLeast} }), "info cores: it used at least 0.02 of the 8 cores it was allocated on average; that was not measured exactly, so it is not judged"},
		"starved": {batch(8, 1, 1.2, func(u *Usage) { u.CPUWaitSeconds, u.MostThreads = at(3600), at(8) }),
			"warning cpu_wait: its threads were ready to run but waited for a core for 1 h (50 % of the time they wanted to run): others had the cores\n" +
				"info cores: it used 1 of the 8 cores it was allocated on average (12 %) while its threads waited for cores; without waiting it would have used 2 at most"},

		// Idle.
		"asleep":               {batch(1, 0.001, 0.01), "warning idle: it was idle: it used 3.6 s of CPU time in 1 h, with 1 core allocated"},
		"part of a core":       {request(0.04, 0.03, 0.04), "info cores: it used 0.03 of the 0.04 cores it asked for on average (75 %)"},
		"part of one, spare":   {request(0.25, 0.07, 0.07), "info cores: it used 0.07 of the 0.25 cores it asked for on average (28 %)"},
		"part of one, asleep":  {request(0.04, 0.00199, 0.001), "warning idle: it was idle: it used 7.2 s of CPU time in 1 h, with 0.04 cores asked for"},
		"part of one, hardly":  {request(0.04, 0.0021, 0.001), "info cores: it used less than 0.01 of the 0.04 cores it asked for on average (5.2 %)"},
		"asleep, with a burst": {batch(1, 0.0035, 0.2), "warning idle: it was idle: it used 13 s of CPU time in 1 h, with 1 core allocated"},
		"asleep, running":      {batch(2, 0.00001, 0, func(u *Usage) { u.Running, u.State, u.ExitCode = true, "running", nil }), "warning idle: it is idle: it has used 36 ms of CPU time in 1 h, with 2 cores allocated"},
		"asleep on GPUs":       {batch(2, 0.001, 0, func(u *Usage) { u.GPUs, u.GPUSeconds = at(4), at(0) }), "warning idle: it was idle: it used 3.6 s of CPU time in 1 h, with 2 cores and 4 GPUs allocated"},
		"its GPU works": {batch(2, 0.01, 0.02, func(u *Usage) { u.GPUs, u.GPUSeconds = at(1), at(3500) }),
			"warning cores: it used 0.01 of the 2 cores it was allocated on average (0.5 %), and no more than 0.1 for 95 % of the time\ngood gpu: its GPU was busy 97 % of the time"},
		"hardly awake": {batch(1, 0.05, 0.09), "info cores: it used its one core 5 % of the time"},

		// GPUs.
		"never opened":   {gpu(4, 0), "warning gpu: it never used its 4 GPUs: if it needs none of them, ask for none"},
		"one, not used":  {gpu(1, 0), "warning gpu: it never used its GPU: if it needs no GPU, ask for none"},
		"hardly used":    {gpu(1, 0.149), "warning gpu: its GPU was busy only 15 % of the time: does it use it, and can data be fed faster?"},
		"two hardly":     {gpu(2, 0.01), "warning gpu: its 2 GPUs were busy only 1 % of the time: does it use them, and can data be fed faster?"},
		"15 %":           {gpu(1, 0.15), "info gpu: its GPU was busy 15 % of the time"},
		"below 70 %":     {gpu(1, 0.699), "info gpu: its GPU was busy 70 % of the time"},
		"70 %":           {gpu(1, 0.7), "good gpu: its GPU was busy 70 % of the time"},
		"GPU, a bound":   {gpu(1, 0.01, func(u *Usage) { u.Exactness = figure.Degrees{"gpu_seconds": figure.AtLeast} }), "info gpu: its GPU was busy at least 1 % of the time; that was not measured exactly, so it is not judged"},
		"waits for host": {gpu(1, 0.49, func(u *Usage) { u.CPUSeconds = at(0.95 * 3600) }), "info gpu: its GPU was busy 49 % of the time\ninfo gpu-host: its GPU waited 51 % of the time while its processes used 0.95 cores on average: most likely the GPU waits for what these prepare; more of them side by side, or less work before the GPU, would help"},
		"half of it":     {gpu(1, 0.5, func(u *Usage) { u.CPUSeconds = at(0.95 * 3600) }), half},
		"host rests":     {gpu(1, 0.49, func(u *Usage) { u.CPUSeconds = at(0.94 * 3600) }), "info gpu: its GPU was busy 49 % of the time"},
		"two for one":    {gpu(2, 0.49, func(u *Usage) { u.CPUSeconds = at(1.89 * 3600) }), "info gpu: its 2 GPUs were busy 49 % of the time"},
		"CPU, a bound": {gpu(1, 0.49, func(u *Usage) {
			u.CPUSeconds, u.Exactness = at(0.95*3600), figure.Degrees{"cpu_seconds": figure.AtLeast}
		}), "info gpu: its GPU was busy 49 % of the time"},
		"single":         {engines(map[string]float64{"tensor": 0.0049, "fp64": 0.0049, "sm": 0.3}), half + "\ninfo gpu-kind: while its GPU computed, tensor cores and double-precision units were next to never busy: if it multiplies matrices, lower precision on tensor cores would be faster; if not, a GPU without them is enough"},
		"tensor":         {engines(map[string]float64{"tensor": 0.005, "fp64": 0}), half + "\ninfo gpu-kind: while its GPU computed, the tensor cores were busy 0.5 % of the time"},
		"double":         {engines(map[string]float64{"tensor": 0.0049, "fp64": 0.005}), half + "\ninfo gpu-kind: while its GPU computed, the double-precision units were busy 0.5 % of the time, and the tensor cores next to never"},
		"no fp64 count":  {engines(map[string]float64{"tensor": 0}), half},
		"no tensor":      {engines(map[string]float64{"fp64": 0, "dram": 0.59, "sm": 0.3}), half},
		"sparse":         {engines(map[string]float64{"sm": 0.29}), half + "\ninfo gpu-kind: while its GPU computed, work was on 29 % of the multiprocessors on average: larger batches would use more of it, or others can share it"},
		"streams":        {engines(map[string]float64{"dram": 0.6}), half + "\ninfo gpu-kind: while its GPU computed, traffic to GPU memory was at 60 % of the highest: most likely memory, not arithmetic, limits it"},
		"computed 59 s":  {engines(map[string]float64{"tensor": 0.5}, func(u *Usage) { u.GPUEngines.BusySeconds = 59 }), half},
		"GPU, not known": {gpu(1, 0, func(u *Usage) { u.GPUSeconds = nil }), ""},

		// Memory.
		"nearly killed": {memory(64*gib, 63*gib, 63*gib), "warning memory: it needed 63 GiB of the 64 GiB of memory it was allocated (98 %): a little more and it would be killed"},
		"95 %":          {memory(100*gib, 95*gib, 95*gib), "warning memory: it needed 95 GiB of the 100 GiB of memory it was allocated (95 %): a little more and it would be killed"},
		"a step was killed": {memory(64*gib, 64*gib, 64*gib, func(u *Usage) {
			u.State, u.JobSteps = "completed", []Step{{ID: "1", Name: "eat", State: "out_of_memory", WallSeconds: 2}}
		}), "critical oom: step 1 (eat) was killed for lack of memory after 2 s, though the state of the job is completed; ask for more memory, or use less"},
		"below 95 %": {memory(100*gib, 94.9*gib, 94.9*gib), "info memory: it needed 94.9 GiB of the 100 GiB of memory it was allocated (95 %): little room for a run that needs more"},
		"a spike": {memory(1.5*gib, 0.75*gib, 1.1*gib, func(u *Usage) { u.MemoryNeededMostBytes = at(1.1 * gib) }),
			"good memory: it needed 768 MiB to 1.1 GiB of the 1.5 GiB of memory it was allocated (50 % to 73 %)"},
		"a spike may fill more than half": {memory(64*gib, 2*gib, 60*gib, func(u *Usage) { u.MemoryNeededMostBytes = at(40 * gib) }),
			"good memory: it needed 2 GiB to 40 GiB of the 64 GiB of memory it was allocated (3.1 % to 62 %), with 20 GiB of page cache in addition, which the kernel can reclaim"},
		"page cache":          {memory(200<<20, 1.7*(1<<20), 200<<20), "info memory: memory peaked at 200 MiB of the 200 MiB it was allocated, of it 198 MiB page cache, which the kernel can reclaim; it needed 1.7 MiB (0.9 %)"},
		"page cache, stalled": {memory(8*gib, 4*gib, 8*gib, func(u *Usage) { u.MemoryStalledSeconds = at(360) }), "warning memory: its memory of 8 GiB was full, 4 GiB of it page cache, and it was held up for lack of memory 10 % of the time: more memory would make it faster"},
		"hardly stalled":      {memory(8*gib, 4*gib, 8*gib, func(u *Usage) { u.MemoryStalledSeconds = at(359) }), "info memory: memory peaked at 8 GiB of the 8 GiB it was allocated, of it 4 GiB page cache, which the kernel can reclaim; it needed 4 GiB (50 %)"},
		"read again":          {memory(8*gib, 4*gib, 8*gib, func(u *Usage) { u.RefaultBytes = at(8 * gib) }), "warning memory: its memory of 8 GiB was full, 4 GiB of it page cache, and 8 GiB of it had to be read again after the kernel took them back: more memory would make it faster"},
		"read a little again": {memory(8*gib, 4*gib, 8*gib, func(u *Usage) { u.RefaultBytes = at(7.9 * gib) }), "info memory: memory peaked at 8 GiB of the 8 GiB it was allocated, of it 4 GiB page cache, which the kernel can reclaim; it needed 4 GiB (50 %)"},
		"much too much":       {memory(64*gib, 2*gib, 2*gib), "warning memory: it needed 2 GiB of the 64 GiB of memory it was allocated (3.1 %)"},
		"too much, and cache": {memory(64*gib, 2*gib, 40*gib), "warning memory: it needed 2 GiB of the 64 GiB of memory it was allocated (3.1 %), with 38 GiB of page cache in addition, which the kernel can reclaim"},
		"half":                {memory(64*gib, 32*gib, 32*gib), "good memory: it needed 32 GiB of the 64 GiB of memory it was allocated (50 %)"},
		"small memory":        {memory(512<<20, 10<<20, 10<<20), ""},
		"1 GiB too much":      {memory(1.5*gib, 0.5*gib, 0.5*gib), "warning memory: it needed 512 MiB of the 1.5 GiB of memory it was allocated (33 %)"},
		"less than that":      {memory(1.49*gib, 0.5*gib, 0.5*gib), ""},
		"an estimate":         {memory(8*gib, 7.9*gib, 7.9*gib, func(u *Usage) { u.Exactness = figure.Degrees{"memory_needed_peak_bytes": figure.Estimated} }), "info memory: it needed about 7.9 GiB of the 8 GiB of memory it was allocated; that was not measured exactly, so it is not judged"},
		"only the peak": {memory(200<<20, 0, 200<<20, func(u *Usage) { u.MemoryNeededPeakBytes = nil }),
			"info memory: memory peaked at 200 MiB of the 200 MiB it was allocated (100 %); how much of it was reclaimable is unknown"},
		"only the peak, low": {memory(64*gib, 0, 2*gib, func(u *Usage) { u.MemoryNeededPeakBytes = nil }), "warning memory: memory peaked at 2 GiB of the 64 GiB it was allocated (3.1 %)"},
		"swap":               {bare(func(u *Usage) { u.SwapBytes = at(64 << 20) }), "warning swap: up to 64 MiB of it was swapped out, which is slow: it needs more memory than it had"},
		"a little swap":      {bare(func(u *Usage) { u.SwapBytes = at(64<<20 - 1) }), ""},

		// Ends.
		"well":            {ended("completed", 0), ""},
		"out of memory":   {ended("out_of_memory", 137), "critical oom: it was ended for lack of memory; ask for more memory, or use less"},
		"a kill":          {ended("out_of_memory", 137, func(u *Usage) { u.OOMKills = at(1) }), "critical oom: the kernel killed 1 process of it for lack of memory; ask for more memory, or use less"},
		"kills, no state": {ended("", 1, func(u *Usage) { u.OOMKills = at(3) }), "critical oom: the kernel killed 3 processes of it for lack of memory; ask for more memory, or use less"},
		"a step of it": {ended("completed", 0, func(u *Usage) {
			u.JobSteps = []Step{{ID: "0", State: "completed"}, {ID: "1", Name: "solve", State: "out_of_memory", WallSeconds: 2, ExitCode: code(125)}, {ID: "2", State: "completed"}}
		}), "critical oom: step 1 (solve) was killed for lack of memory after 2 s, though the state of the job is completed; ask for more memory, or use less"},
		"idle to the end": {batch(2, 0.00001, 0, func(u *Usage) { u.State, u.ExitCode, u.RequestSeconds = "timeout", code(143), at(3600) }), "critical timeout: it reached its time limit of 1 h and was ended, though it had done next to nothing: more time would not help\nwarning idle: it was idle: it used 36 ms of CPU time in 1 h, with 2 cores allocated"},
		"time limit":      {ended("timeout", 143, func(u *Usage) { u.RequestSeconds = at(3600) }), "critical timeout: it reached its time limit of 1 h and was ended; ask for more time, or write checkpoints"},
		"deadline":        {ended("deadline", 0), "critical timeout: it could not end before its deadline and was ended after 1 h"},
		"node failure":    {ended("node_fail", 0), "critical node_fail: a node failed under it after 1 h: this was not its fault; submit it again"},
		"preempted":       {ended("preempted", 143), "info preempted: it had to make room for a job of higher priority after 1 h"},
		"cancelled":       {ended("cancelled", 143), "info cancelled: it was cancelled after 1 h"},
		"by whom":         {ended("cancelled", 143, func(u *Usage) { u.EndedByUser = "alice" }), "info cancelled: it was cancelled by alice after 1 h"},
		"cancelled, idle": {batch(1, 0.001, 0.01, func(u *Usage) { u.State, u.EndedByUser = "cancelled", "carol" }),
			"info cancelled: it was cancelled by carol after 1 h\nwarning idle: it was idle: it used 3.6 s of CPU time in 1 h, with 1 core allocated"},
		"cancelled, short of memory": {batch(1, 0.001, 0.01, func(u *Usage) { u.State, u.OOMKills = "cancelled", at(1) }),
			"critical oom: the kernel killed 1 process of it for lack of memory; ask for more memory, or use less\ninfo cancelled: it was cancelled after 1 h\nwarning idle: it was idle: it used 3.6 s of CPU time in 1 h, with 1 core allocated"},
		"withdrawn":     {ended("revoked", 0), "info cancelled: the scheduler withdrew it after 1 h"},
		"failed":        {ended("failed", 2), "critical exit: it failed with exit code 2"},
		"failed, sent":  {ended("failed", 139), "critical exit: it failed: signal 11 (segmentation fault) ended it"},
		"accounted 127": {ended("failed", 127, accounted), "critical exit: it failed with exit code 127 or 255, which Slurm's accounting reports as 127"},
		"accounted 6":   {ended("failed", 6, accounted), "critical exit: it failed with exit code 6, or by signal 6 (abort): Slurm's accounting reports both as 6"},
		"accounted 1":   {ended("failed", 1, accounted), "critical exit: it failed with exit code 1"},
		"failed, 127":   {ended("failed", 127), "critical exit: it failed with exit code 127, which a shell returns for a command that it does not find"},
		"failed, why":   {ended("failed", 0), "critical exit: it failed; the batch system gives no exit code"},
		"no state":      {ended("", 139), "critical exit: it was ended by signal 11 (segmentation fault)"},
		"no state, 1":   {ended("", 1), "critical exit: it ended with exit code 1"},
		"sent to end":   {ended("", 143), "info exit: it was ended by signal 15 (terminated)"},
		"interrupted":   {ended("", 130), "info exit: it was ended by signal 2 (interrupted)"},
		"killed":        {ended("", 137), "critical exit: it was ended by signal 9 (killed)"},
		"last heard of": {ended("running", 0, func(u *Usage) { u.ExitCode, u.RequestSeconds = nil, at(86400) }), "info lost: it was last reported after 1 h; how it ended is unknown"},
		"runs":          {ended("running", 1, func(u *Usage) { u.Running = true }), ""},
		"failed step": {ended("failed", 1, func(u *Usage) {
			u.JobSteps = []Step{{ID: "batch", Name: "batch", State: "failed", ExitCode: code(1)}, {ID: "0", State: "completed", ExitCode: code(0)}, {ID: "2", Name: "false", State: "failed", ExitCode: code(1)}}
		}), "critical step: step 2 (false) failed with exit code 1"},
		"crashed step": {ended("failed", 11, func(u *Usage) {
			u.JobSteps = []Step{{ID: "batch", Name: "batch", State: "failed", ExitCode: code(11)}, {ID: "0", Name: "sh", State: "cancelled", ExitCode: code(139)}}
		}), "critical step: step 0 (sh) failed: signal 11 (segmentation fault) ended it"},
		"stopped step": {ended("failed", 15, func(u *Usage) { u.JobSteps = []Step{{ID: "0", Name: "sh", State: "cancelled", ExitCode: code(143)}} }),
			"critical step: step 0 (sh) failed: signal 15 (terminated) ended it"},
		"stopped step, as a shell counts": {ended("failed", 137, func(u *Usage) { u.JobSteps = []Step{{ID: "0", State: "cancelled", ExitCode: code(137)}} }),
			"critical step: step 0 failed: signal 9 (killed) ended it"},
		"server stopped at the end": {ended("failed", 3, func(u *Usage) {
			u.JobSteps = []Step{{ID: "0", Name: "server", State: "cancelled", ExitCode: code(143)}}
		}), "critical exit: it failed with exit code 3"},
		"server stopped, all well": {ended("completed", 0, func(u *Usage) {
			u.JobSteps = []Step{{ID: "0", Name: "server", State: "cancelled", ExitCode: code(137)}}
		}), ""},
		"crash hidden": {ended("completed", 0, func(u *Usage) { u.JobSteps = []Step{{ID: "0", Name: "a.out", State: "cancelled", ExitCode: code(134)}} }),
			"warning step: its state is completed, but step 0 (a.out) failed: signal 6 (abort) ended it"},
		"failed script": {ended("failed", 1, func(u *Usage) { u.JobSteps = []Step{{ID: "batch", Name: "batch", State: "failed", ExitCode: code(1)}} }), "critical exit: it failed with exit code 1"},
		"hidden": {ended("completed", 0, func(u *Usage) { u.JobSteps = []Step{{ID: "2", Name: "a.out", State: "failed", ExitCode: code(134)}} }),
			"warning step: its state is completed, but step 2 (a.out) failed: signal 6 (abort) ended it"},

		// Time.
		"a quarter":     {ended("completed", 0, func(u *Usage) { u.RequestSeconds = at(14400) }), ""},
		"less of it":    {ended("completed", 0, func(u *Usage) { u.RequestSeconds = at(14401) }), "info time: it took 1 h of its limit of 4 h (25 %): with a shorter time limit it is likely to start sooner"},
		"within 1 h":    {ended("completed", 0, func(u *Usage) { u.WallSeconds, u.RequestSeconds = 600, at(4199) }), ""},
		"an hour":       {ended("completed", 0, func(u *Usage) { u.WallSeconds, u.RequestSeconds = 600, at(4200) }), "info time: it took 10 min of its limit of 1 h 10 min (14 %): with a shorter time limit it is likely to start sooner"},
		"it failed":     {ended("failed", 1, func(u *Usage) { u.RequestSeconds = at(86400) }), "critical exit: it failed with exit code 1"},
		"still running": {ended("running", 0, func(u *Usage) { u.Running, u.RequestSeconds = true, at(86400) }), ""},

		// Waiting.
		"waits 10 %": {bare(func(u *Usage) { u.CPUSeconds, u.CPUWaitSeconds = at(900), at(100) }),
			"warning cpu_wait: its threads were ready to run but waited for a core for 2 min (10 % of the time they wanted to run): more threads than cores, or others on the node"},
		"waits less":      {bare(func(u *Usage) { u.CPUSeconds, u.CPUWaitSeconds = at(901), at(99) }), ""},
		"for a moment":    {bare(func(u *Usage) { u.CPUSeconds, u.CPUWaitSeconds = at(1), at(9.9) }), ""},
		"for ten seconds": {bare(func(u *Usage) { u.CPUSeconds, u.CPUWaitSeconds = at(1), at(10) }), "warning cpu_wait: its threads were ready to run but waited for a core for 10 s (91 % of the time they wanted to run): more threads than cores, or others on the node"},
		"its own threads": {batch(4, 4, 4, func(u *Usage) { u.CPUWaitSeconds, u.MostThreads = at(14400), at(8) }),
			"warning cpu_wait: its threads were ready to run but waited for a core for 4 h (50 % of the time they wanted to run): it has more threads than cores\ngood cores: it used 4 of the 4 cores it was allocated on average (100 %)"},
		"its neighbours": {batch(1, 0.5, 0.6, func(u *Usage) {
			u.CPUWaitSeconds, u.MostThreads, u.Neighbours = at(1800), at(1), []Neighbour{{"bob", 2.5}, {"carol", 1}, {"root", 0.01}}
		}), "warning cpu_wait: its threads were ready to run but waited for a core for 30 min (50 % of the time they wanted to run): others had the cores, above all bob (2.5 cores on average), carol (1 core on average)\n" +
			"info cores: it used 0.5 of the 1 core it was allocated on average (50 %) while its threads waited for cores; without waiting it would have used 1 at most"},
		"a quota":        {bare(func(u *Usage) { u.ThrottledSeconds = at(180) }), "warning throttled: its limit of CPU time held it back for 3 min in all: raise the limit, or start fewer threads"},
		"hardly a quota": {bare(func(u *Usage) { u.ThrottledSeconds = at(179) }), ""},
		"storage":        {bare(func(u *Usage) { u.StorageStalledSeconds = at(360) }), "warning storage: it waited for storage for 6 min (10 % of the time): faster storage, or fewer and larger reads and writes, would help"},
		"hardly storage": {bare(func(u *Usage) { u.StorageStalledSeconds = at(359) }), ""},
		"threads at storage": {bare(func(u *Usage) { u.CPUSeconds, u.CPUWaitSeconds, u.IOWaitSeconds = at(81), at(9), at(10) }),
			"warning storage: its threads waited 10 s for storage: 10 % of the time in which they had something to do"},
		"hardly at storage": {bare(func(u *Usage) { u.CPUSeconds, u.CPUWaitSeconds, u.IOWaitSeconds = at(81), at(9.1), at(10) }), ""},
		"not worth a word":  {bare(func(u *Usage) { u.CPUSeconds, u.CPUWaitSeconds, u.IOWaitSeconds = at(1), at(0), at(9.99) }), ""},
		"waits, at least": {batch(4, 0.1, 1, func(u *Usage) {
			u.CPUWaitSeconds, u.Exactness = at(900), figure.Degrees{"cpu_wait_seconds": figure.AtLeast}
		}),
			"warning cpu_wait: its threads were ready to run but waited for a core for at least 15 min (at least 71 % of the time they wanted to run): more threads than cores, or others on the node\n" +
				"info cores: it used 0.1 of the 4 cores it was allocated on average (2.5 %) while its threads waited for cores; how many it would have used without waiting is not known"},
		"waits, at least, beside others": {bare(func(u *Usage) {
			u.CPUSeconds, u.CPUWaitSeconds, u.Exactness = at(7), at(16), figure.Degrees{"cpu_wait_seconds": figure.AtLeast}
			u.Neighbours = []Neighbour{{"bob", 1.9}}
		}), "warning cpu_wait: its threads were ready to run but waited for a core for at least 16 s (at least 70 % of the time they wanted to run): more threads than cores, or others on the node, above all bob (1.9 cores on average)"},
		"waits, estimated": {bare(func(u *Usage) {
			u.CPUSeconds, u.CPUWaitSeconds, u.Exactness = at(7), at(16), figure.Degrees{"cpu_wait_seconds": figure.Estimated}
		}), ""},
		"storage, CPU at least": {bare(func(u *Usage) {
			u.CPUSeconds, u.IOWaitSeconds, u.Exactness = at(1), at(100), figure.Degrees{"cpu_seconds": figure.AtLeast}
		}), ""},
		"storage at least": {bare(func(u *Usage) {
			u.CPUSeconds, u.IOWaitSeconds, u.Exactness = at(1), at(100), figure.Degrees{"io_wait_seconds": figure.AtLeast}
		}), ""},
		"stalled, and threads":    {bare(func(u *Usage) { u.CPUSeconds, u.StorageStalledSeconds, u.IOWaitSeconds = at(1), at(359), at(359) }), ""},
		"threads at storage only": {batch(1, 0.001, 0.01, func(u *Usage) { u.IOWaitSeconds = at(3000) }), "warning storage: its threads waited 50 min for storage: 100 % of the time in which they had something to do\ninfo cores: it used its one core 0.1 % of the time"},
		"storage, asleep":         {batch(1, 0.001, 0.01, func(u *Usage) { u.StorageStalledSeconds = at(3000) }), "warning storage: it waited for storage for 50 min (83 % of the time): faster storage, or fewer and larger reads and writes, would help\ninfo cores: it used its one core 0.1 % of the time"},
		"likely storage": {batch(1, 0.7, 0.9, func(u *Usage) { u.CPUWaitSeconds, u.MostThreads, u.ReadBytes = at(0), at(1), at(3600*172*(1<<20)) }),
			"info cores: it used its one core 70 % of the time\ninfo storage: for 18 min (30 % of the time) it was neither on a core nor waiting for one, while it read and wrote 172 MiB a second: most likely it waited for storage"},
		"it sleeps, and reads little": {batch(1, 0.7, 0.9, func(u *Usage) { u.CPUWaitSeconds, u.MostThreads, u.ReadBytes = at(0), at(1), at(3600*9.9*(1<<20)) }), "info cores: it used its one core 70 % of the time"},
		"two threads":                 {batch(1, 0.7, 0.9, func(u *Usage) { u.CPUWaitSeconds, u.MostThreads, u.ReadBytes = at(0), at(2), at(3600*172*(1<<20)) }), "info cores: it used its one core 70 % of the time"},

		// Balance.
		"tasks uneven": {bare(func(u *Usage) {
			u.Tasks = []TaskUse{{"a", "0", 3, 100, 60}, {"b", "0", 3, 219, 110}}
			u.JobSteps = []Step{{ID: "0", Name: "solve"}}
		}), "warning task_balance: of the 3 tasks of step 0 (solve) on node a the busiest used 1 min of CPU time, the others 20 s on average: the work is not spread evenly"},
		"one of two idle":      {bare(func(u *Usage) { u.Tasks = []TaskUse{{"a", "0", 2, 10, 10}} }), "warning task_balance: of the two tasks of step 0 on node a one used 10 s of CPU time, the other 0 s: the work is not spread evenly"},
		"too little for tasks": {bare(func(u *Usage) { u.Tasks = []TaskUse{{"a", "0", 2, 9.9, 9.9}} }), ""},
		"others below half":    {bare(func(u *Usage) { u.Tasks = []TaskUse{{"a", "0", 2, 149, 100}} }), "warning task_balance: of the two tasks of step 0 on node a one used 2 min of CPU time, the other 49 s: the work is not spread evenly"},
		"others half":          {bare(func(u *Usage) { u.Tasks = []TaskUse{{"a", "0", 2, 150, 100}} }), ""},
		"tasks, not measured": {bare(func(u *Usage) {
			u.Tasks = []TaskUse{{"a", "0", 2, 100, 100}}
			u.Exactness = figure.Degrees{"cpu_seconds": figure.AtLeast}
		}), ""},
		"one node idle": {bare(func(u *Usage) { u.PerNode = []Node{{Name: "a", CPUSeconds: at(1000)}, {Name: "b", CPUSeconds: at(0)}} }), "warning balance: node b did 0 % of the CPU work of the mean of its 2 nodes: the work is not spread evenly"},
		"below half": {bare(func(u *Usage) {
			u.PerNode = []Node{{Name: "a", CPUSeconds: at(1510)}, {Name: "b", CPUSeconds: at(490)}}
		}), "warning balance: node b did 49 % of the CPU work of the mean of its 2 nodes: the work is not spread evenly"},
		"half the mean": {bare(func(u *Usage) {
			u.PerNode = []Node{{Name: "a", CPUSeconds: at(1500)}, {Name: "b", CPUSeconds: at(500)}}
		}), "good balance: its 2 nodes shared the work evenly; the least did 50 % of the mean"},
		"hardly any work": {bare(func(u *Usage) { u.PerNode = []Node{{Name: "a", CPUSeconds: at(59)}, {Name: "b", CPUSeconds: at(0)}} }), ""},
		"gpu of one idle": {bare(func(u *Usage) { u.PerNode = []Node{{Name: "a", GPUSeconds: at(100)}, {Name: "b", GPUSeconds: at(1)}} }), "warning gpu_balance: node b had 2 % of the GPU time of the mean of its 2 nodes: its GPUs were idle while others worked"},
		"memory of one": {bare(func(u *Usage) {
			u.PerNode = []Node{{Name: "a", Memory: at(60 << 30)}, {Name: "b", Memory: at(1 << 30)}, {Name: "c", Memory: at(1 << 30)}}
		}),
			"info memory_balance: node a needed 2.9 times the memory of the mean of its 3 nodes: what all of them ask for is what this one needs"},
		"above what it was allocated":   {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(210)}}, WallSeconds: 100, Cores: at(2), Batch: true}, "warning cores: it used 2.1 cores on average, more than the 2 cores it was allocated (105 %), and nothing limited it to that; request what it uses"},
		"as much as a tick more":        {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(209)}}, WallSeconds: 100, Cores: at(2), Batch: true}, "good cores: it used 2.1 of the 2 cores it was allocated on average (104 %)"},
		"above what it asked for":       {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(300)}}, WallSeconds: 100, Cores: at(2)}, "good cores: it used 3 of the 2 cores it asked for on average (150 %)"},
		"peak above what it was given":  {Usage{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(210 << 20)}}, WallSeconds: 100, Memory: at(200 << 20), Batch: true}, "warning memory: memory peaked at 210 MiB, more than the 200 MiB it was allocated (105 %), and nothing limited it to that; request what it needs"},
		"bound above what it was given": {Usage{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(210 << 20), Exactness: figure.Degrees{"memory_peak_bytes": figure.Estimated}}}, WallSeconds: 100, Memory: at(200 << 20), Batch: true}, "info memory: memory peaked at about 210 MiB of the 200 MiB it was allocated (105 %); how much of it was reclaimable is unknown"},
		"peak as much as sampling more": {Usage{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(209 << 20)}}, WallSeconds: 100, Memory: at(200 << 20), Batch: true}, "info memory: memory peaked at 209 MiB of the 200 MiB it was allocated (104 %); how much of it was reclaimable is unknown"},
		"sampled for ten minutes":       {Usage{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(1 << 30)}}, WallSeconds: 600, Memory: at(64 << 30), Batch: true, MemorySampled: true}, "warning memory: memory peaked at about 1 GiB of the 64 GiB it was allocated (1.6 %)"},
		"sampled of one task":           {Usage{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(1 << 30)}}, WallSeconds: 600, Memory: at(64 << 30), Batch: true, MemorySampled: true, MemoryOfTask: true}, "info memory: memory peaked at about 1 GiB of the 64 GiB it was allocated (1.6 %), by the samples of accounting"},
		"sampled for less":              {Usage{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(1 << 30)}}, WallSeconds: 599, Memory: at(64 << 30), Batch: true, MemorySampled: true}, "info memory: memory peaked at about 1 GiB of the 64 GiB it was allocated (1.6 %), by the samples of accounting"},
		"seen once":                     {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(1)}}, Cores: at(2)}, "info short: it was seen in one reading only: its run time is unknown, and it is not judged"},
		"over in a second":              {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(0.9)}}, Cores: at(2)}, "info short: it ran for less than a second: too short to judge how well it used what it asked for"},
		"short, and it waited": {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(16), CPUWaitSeconds: at(16)}}, WallSeconds: 24, Cores: at(2), CoresImplied: true},
			"warning cpu_wait: its threads were ready to run but waited for a core for 16 s (50 % of the time they wanted to run): more threads than cores, or others on the node\ninfo short: it ran for 24 s: too short to judge how well it used its node"},
		"short, without a request": {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(1)}}, WallSeconds: 4, Cores: at(2), CoresImplied: true}, "info short: it ran for 4 s: too short to judge how well it used its node"},
		"allocation changed":       {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(150), MemoryPeakBytes: at(2)}}, WallSeconds: 100, Cores: at(1), Memory: at(1), Batch: true, Resized: true}, "info cores: it used 1.5 cores on average; how many it was allocated changed while it ran, so that is not judged"},
		"little memory, and it failed": {Usage{Run: figure.Run{State: "failed", ExitCode: new(1), Row: figure.Row{MemoryPeakBytes: at(1 << 30)}}, WallSeconds: 100, Memory: at(64 << 30), Batch: true},
			"critical exit: it failed with exit code 1\ninfo memory: memory peaked at 1 GiB of the 64 GiB it was allocated (1.6 %); how much of it was reclaimable is unknown"},
		"its node failed": {Usage{Run: figure.Run{State: "node_fail", Row: figure.Row{CPUSeconds: at(1)}}, WallSeconds: 100, Cores: at(4), Batch: true}, "critical node_fail: a node failed under it after 2 min: this was not its fault; submit it again"},
		"29 s":            {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(1), CoresP95: at(1)}}, WallSeconds: 29, Cores: at(64), Batch: true}, "info short: it ran for 29 s: too short to judge how well it used what it was allocated"},
		"a step ran into a limit of its own": {Usage{Run: figure.Run{State: "completed"}, WallSeconds: 100, Batch: true, JobSteps: []Step{{ID: "0", Name: "w", State: "timeout", ExitCode: new(143), WallSeconds: 60}}},
			"warning step: step 0 (w) ran into a time limit of its own after 1 min and was ended, and the job went on\ninfo unmeasured: its use was not measured: no agent was on its nodes, and accounting did not collect it"},
		"a step was cancelled": {Usage{Run: figure.Run{State: "completed"}, WallSeconds: 29, Batch: true, JobSteps: []Step{{ID: "0", State: "cancelled", ExitCode: new(143), WallSeconds: 9}, {ID: "1", Name: "w", State: "cancelled", WallSeconds: 9, Early: true}}},
			"info step: step 1 (w) was cancelled after 9 s, and the job went on\ninfo short: it ran for 29 s: too short to judge how well it used what it was allocated"},
		"queued again": {Usage{Run: figure.Run{State: "completed"}, WallSeconds: 29, Batch: true, Before: &Earlier{"preempted", 6}},
			"info before: it was queued again: the run before this one had to make room for a job of higher priority after 6 s\ninfo short: it ran for 29 s: too short to judge how well it used what it was allocated"},
		"queued again, and waits": {Usage{Run: figure.Run{State: "pending"}, Batch: true, Before: &Earlier{"node_fail", 6}, Waited: 60},
			"info queue: it has waited for 1 min; the batch system gives no reason\ninfo before: it was queued again: the run before this one ended because a node failed after 6 s"},
		"30 s": {Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(30), CoresP95: at(1)}}, WallSeconds: 30, Cores: at(64), Batch: true}, "warning cores: it used 1 of the 64 cores it was allocated on average (1.6 %), and no more than 1 for 95 % of the time"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := spoken(c.u); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestEmpty: an allocation without a process is not judged by its use.
func TestEmpty(t *testing.T) {
	holds := func(edit ...func(*Usage)) string {
		return spoken(batch(4, 0, 0, append([]func(*Usage){func(u *Usage) {
			u.Running, u.State, u.ExitCode, u.CPUSeconds, u.EmptySeconds = true, "running", nil, at(7200), at(600)
		}}, edit...)...))
	}
	const empty = "warning empty: it runs for the batch system, but no process of it "
	for name, c := range map[string]struct {
		edit       func(*Usage)
		want, deny string
	}{
		"ten minutes":    {func(*Usage) {}, empty + "has run for 10 min: it holds 4 cores for nothing", "cores:"},
		"less":           {func(u *Usage) { u.EmptySeconds = at(599) }, "cores:", "empty:"},
		"nobody looked":  {func(u *Usage) { u.EmptySeconds = nil }, "cores:", "empty:"},
		"never":          {func(u *Usage) { u.CPUSeconds = nil }, empty + "was seen in 10 min", "cores:"},
		"with GPUs":      {func(u *Usage) { u.GPUs = at(2) }, "it holds 4 cores and 2 GPUs for nothing", "gpu:"},
		"cores unknown":  {func(u *Usage) { u.Cores = nil }, "it holds its allocation for nothing", "cores:"},
		"it ended since": {func(u *Usage) { u.Running, u.State = false, "completed" }, "cores:", "empty:"},
	} {
		if got := holds(c.edit); !strings.Contains(got, c.want) || strings.Contains(got, c.deny) {
			t.Errorf("%s: %s\nwant %q and not %q", name, got, c.want, c.deny)
		}
	}
}

// TestSqueezed tests both sides of the indicators of short memory.
func TestSqueezed(t *testing.T) {
	const gib = 1 << 30
	u := Usage{Run: figure.Run{Row: figure.Row{MemoryPeakBytes: at(gib)}}, WallSeconds: 3600, Memory: at(gib)}
	for name, c := range map[string]struct {
		edit func(*Usage)
		want bool
	}{
		"full, no pressure":   {func(*Usage) {}, false},
		"stalled 10 %":        {func(u *Usage) { u.MemoryStalledSeconds = at(360) }, true},
		"stalled less":        {func(u *Usage) { u.MemoryStalledSeconds = at(359) }, false},
		"read all again":      {func(u *Usage) { u.RefaultBytes = at(gib) }, true},
		"read less again":     {func(u *Usage) { u.RefaultBytes = at(gib - 1) }, false},
		"95 % full":           {func(u *Usage) { u.RefaultBytes, u.MemoryPeakBytes = at(gib), at(0.95*gib) }, true},
		"not full":            {func(u *Usage) { u.RefaultBytes, u.MemoryPeakBytes = at(gib), at(0.949*gib) }, false},
		"too short to be one": {func(u *Usage) { u.WallSeconds, u.MemoryStalledSeconds = 29, at(20) }, false},
		"no limit":            {func(u *Usage) { u.RefaultBytes, u.Memory = at(gib), nil }, false},
	} {
		v := u
		if c.edit(&v); ShortOfMemory(v) != c.want {
			t.Errorf("%s: squeezed is %v", name, !c.want)
		}
	}
}

// TestSilent checks cases that must not be reported.
func TestSilent(t *testing.T) {
	for name, u := range map[string]Usage{
		"nothing known":       {WallSeconds: 3600},
		"node not measured":   {WallSeconds: 100, PerNode: []Node{{Name: "a", CPUSeconds: at(1000)}, {Name: "b"}}},
		"memory not measured": {WallSeconds: 100, PerNode: []Node{{Name: "a", Memory: at(60 << 30)}, {Name: "b"}}},
		"no gpu anywhere":     {WallSeconds: 100, PerNode: []Node{{Name: "a"}, {Name: "b"}}},
		"running, code kept":  {Run: figure.Run{ExitCode: code(1)}, WallSeconds: 100, Running: true},
		"running, time left":  {Run: figure.Run{Row: figure.Row{RequestSeconds: at(86400)}}, WallSeconds: 100, Running: true},
		"not a number":        {Run: figure.Run{Row: figure.Row{CPUSeconds: at(math.NaN()), MemoryPeakBytes: at(math.Inf(1))}}, WallSeconds: 100, Cores: at(4), Memory: at(1)},
		"request of nothing":  {Run: figure.Run{Row: figure.Row{CPUSeconds: at(100), MemoryPeakBytes: at(1)}}, WallSeconds: 100, Cores: at(0), Memory: at(0)},
		"waited for a moment": {Run: figure.Run{Row: figure.Row{CPUSeconds: at(1), CPUWaitSeconds: at(1)}}, WallSeconds: 100},
		"wait beside a bound": {Run: figure.Run{Row: figure.Row{CPUSeconds: at(10), CPUWaitSeconds: at(50), Exactness: figure.Degrees{"cpu_seconds": figure.AtLeast}}}, WallSeconds: 100},
		"work is a bound":     {Run: figure.Run{Row: figure.Row{Exactness: figure.Degrees{"cpu_seconds": figure.AtLeast}}}, WallSeconds: 100, PerNode: []Node{{Name: "a", CPUSeconds: at(1000)}, {Name: "b", CPUSeconds: at(0)}}},
	} {
		if got := spoken(u); got != "" {
			t.Errorf("%s: said %s", name, got)
		}
	}
}

// TestAdviceOnce: recommended requests come from rightsize; a verdict gives no second figure.
func TestAdviceOnce(t *testing.T) {
	for _, k := range texts.Keys() {
		s := texts.Say(k, nil)
		if strings.Contains(s, "would do") || strings.Contains(s, "would have done") || strings.HasPrefix(s, "!") {
			t.Errorf("%s: %s", k, s)
		}
	}
}

// TestFinite: for any figures, values are finite, texts are complete, and the most severe verdict
// comes first.
func TestFinite(t *testing.T) {
	states := []string{"", "completed", "failed", "timeout", "cancelled", "running", "pending", "out_of_memory", "preempted"}
	f := func(wall, cpu, wait, p95, peak, needed, asked, cores, threads, exact uint16, state uint8, exit uint8) bool {
		u := Usage{Run: figure.Run{State: states[int(state)%len(states)], ExitCode: code(int(exit)), Row: figure.Row{CPUSeconds: at(float64(cpu)), CPUWaitSeconds: at(float64(wait)), CoresP95: at(float64(p95)), MemoryPeakBytes: at(float64(peak)), MemoryNeededPeakBytes: at(float64(needed)), Exactness: figure.Degrees{"cpu_seconds": figure.Exactness(exact % 4), "memory_needed_peak_bytes": figure.Exactness(exact / 4 % 4)}}}, WallSeconds: float64(wall), Memory: at(float64(asked)), Cores: at(float64(cores)), MostThreads: at(float64(threads))}
		got := Judge(u)
		for i, v := range got {
			if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || strings.ContainsAny(v.Text, "{}!") || v.Unit == "" || i > 0 && got[i-1].rank() > v.rank() {
				t.Logf("%+v", got)
				return false
			}
			// Only exact figures are judged.
			if u.Exactness["cpu_seconds"] != figure.Exact && slices.Contains([]string{"idle", "balance"}, v.Kind) || u.Exactness["cpu_seconds"] != figure.Exact && v.Kind == "cores" && v.Severity != Info || u.memoryExact() != figure.Exact && v.Kind == "memory" && v.Severity != Info {
				t.Logf("judged: %+v", v)
				return false
			}
		}
		return true
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

// TestScale: if cores and work grow alike, the share stays the same.
func TestScale(t *testing.T) {
	for _, k := range []float64{1, 2, 16, 1024} {
		got := Judge(Usage{Run: figure.Run{Row: figure.Row{CPUSeconds: at(250 * 4 * k), CoresP95: at(k)}}, WallSeconds: 1000, Cores: at(4 * k)})
		if len(got) != 1 || math.Abs(got[0].Value-0.25) > 1e-12 {
			t.Errorf("%g: %+v", k, got)
		}
	}
}
