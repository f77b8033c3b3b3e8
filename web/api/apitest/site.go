package apitest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"reckon/figure"
	"reckon/web/client"
)

func f(v float64) *float64 { return &v }

// Site returns a backend with a site of two nodes at the time now. The site has batch jobs, a pod, a service, a
// session, and a process group with a hostile name.
func Site(now time.Time) *Backend {
	now = now.UTC().Truncate(time.Second)
	job := func(id, name, owner string, wall time.Duration, cores float64, memory float64, nodes ...string) client.WorkloadDetail {
		kind, _, _ := strings.Cut(id, "/")
		cpu := cores * wall.Seconds()
		d := client.WorkloadDetail{Workload: client.Workload{
			ID: id, Kind: kind, Name: name, Owner: owner, Nodes: nodes, Start: now.Add(-wall), Seen: now, Running: true,
			WallSeconds: wall.Seconds(), Row: figure.Row{CPUSeconds: f(cpu), CPUUserSeconds: f(cpu * 0.9), CPUSystemSeconds: f(cpu * 0.1),
				CPUWaitSeconds: f(cpu * 0.02), CoresMean: f(cores), CoresP50: f(cores), CoresP95: f(cores * 1.5), CoresMax: f(cores * 2),
				MemoryBytes: f(memory * 0.8), MemoryPeakBytes: f(memory), MemoryMeanBytes: f(memory * 0.7), ReadBytes: f(1.5 * (1 << 30)),
				WriteBytes: f(20 << 20), Processes: f(12345), Threads: f(17)},
		}, StepSeconds: wall.Seconds() / 120}
		d.Profile = []client.Profile{
			waveProfile("cores", "cores", d.Start, wall, cores), waveProfile("memory_bytes", "bytes", d.Start, wall, memory*0.7),
			waveProfile("io_read_bytes_per_second", "bytes_per_second", d.Start, wall, 3<<20),
		}
		d.Commands = []client.Command{{Command: "python3", CPUSeconds: cpu * 0.8, Processes: f(40)},
			{Command: "gcc", CPUSeconds: cpu * 0.15, Processes: f(12000)}, {Command: "other", CPUSeconds: cpu * 0.05}}
		return d
	}
	train := job("slurm/4711", "train", "alice", 2*time.Hour, 3.2, 6<<30, "n1", "n2")
	train.Account, train.Partition, train.Command = "ml", "gpu", "python3"
	train.RequestCores, train.RequestMemoryBytes, train.RequestSeconds, train.RequestGPUs = f(16), f(8<<30), f(4*3600), f(1)
	train.GPUSeconds, train.GPUMemoryPeak, train.EnergyJoules = f(3600), f(11<<30), f(1.9e6)
	train.Parts = []client.Part{{Node: "n1", Part: "batch", CPUSeconds: f(20000), MemoryPeakBytes: f(4 << 30)},
		{Node: "n2", Part: "0", CPUSeconds: f(3040), MemoryPeakBytes: f(2 << 30)}}
	train.CoresHistogram = []client.Bucket{{Low: 0, High: 1, Seconds: 100}, {Low: 1, High: 4, Seconds: 7000}}
	train.Profile[0].Points[60].Value = nil // a gap
	train.OOMKills, train.RequestNodes, train.EnergyMethod = f(1), f(2), "modelled"
	train.Events = []client.Event{
		{Kind: "oom_kill", From: now.Add(-45 * time.Minute), To: now.Add(-45*time.Minute + 15*time.Second), Node: "n1", Part: "batch",
			Value: 1, Unit: "count"},
		{Kind: "throttled", From: now.Add(-30 * time.Minute), To: now.Add(-20 * time.Minute), Node: "n2", Part: "0", Value: 240,
			Unit: "seconds"},
	}
	train.Advice = &client.Advice{
		Runs: 3, Cores: f(5), MemoryBytes: f(5 << 30), Nodes: 2, Paste: "#SBATCH --nodes=2\n#SBATCH --mincpus=3\n#SBATCH --mem=5120M",
		Why: []string{"cores 5: for 95 % of the time it used no more than 4.8 (the most of 3 runs)",
			"memory 7.25 GiB: the highest peak of 3 runs was 6 GiB, and a fifth above it"},
		Sentences: []client.Sentence{{Key: "memory.peak",
			Template: "memory {memory}: the highest peak of {runs} was {peak}, and a fifth above it",
			Values: []client.Value{{Name: "memory", Text: "7.25 GiB", Value: f(7.25 * (1 << 30)), Unit: "bytes"},
				{Name: "runs", Text: "3 runs", Value: f(3), Unit: "count"},
				{Name: "peak", Text: "6 GiB", Value: f(6 << 30), Unit: "bytes"}},
			Run: "slurm/4711", From: now.Add(-time.Hour), To: now}},
	}
	train.Verdicts = []client.Verdict{
		{Kind: "oom", Severity: "critical", Text: "the kernel killed 1 process of it for lack of memory; ask for more memory, or use less",
			Value: 1, Unit: "count"},
		{Kind: "cores", Severity: "warning",
			Text: "it used 3.2 of the 16 cores it held on average (20 %), and no more than 4.8 for 95 % of the time: 5 cores would have " +
				"done", Value: 0.2, Unit: "ratio"},
	}

	failed := job("slurm/4712", "train", "bob", 30*time.Minute, 0.8, 1<<30, "n1")
	end, code := now.Add(-10*time.Minute), 1
	failed.Start, failed.End, failed.Seen, failed.Running, failed.ExitCode = end.Add(-30*time.Minute), &end, end, false, &code
	middle := end.Add(-10 * time.Minute)
	failed.QOS, failed.StepCount = "long", f(3)
	failed.Steps = []client.Step{
		{ID: "batch", Name: "batch", State: "failed", Start: &failed.Start, End: &end, WallSeconds: f(1800), ExitCode: &code, Nodes: "n1",
			Cores: f(2), CPUSeconds: f(1.5), MemoryPeakBytes: f(4 << 20)},
		{ID: "0", Name: "prepare", State: "completed", Start: &failed.Start, End: &middle, WallSeconds: f(1200), ExitCode: new(int),
			Nodes: "n1", Cores: f(2), CPUSeconds: f(1000), MemoryPeakBytes: f(1 << 30)},
		{ID: "1", Name: "solve", State: "failed", Start: &middle, End: &end, WallSeconds: f(600), ExitCode: &code, Nodes: "n1", Cores: f(2),
			CPUSeconds: f(440), MemoryPeakBytes: f(1 << 29), Accounted: true},
	}

	bare := job("group/n2/812-1795255200", "sh\x1b[31mred\u202e", "carol", time.Minute, 0.001, 1<<20, "n2")
	bare.MemoryPeakBytes, bare.ReadBytes, bare.WriteBytes, bare.CoresP95, bare.CPUWaitSeconds = nil, nil, nil, nil, nil
	bare.Profile, bare.Commands = nil, nil
	bare.NoAdvice = &client.Verdict{Kind: "advice", Severity: "info", Text: "no advice yet: it comes when a run has ended"}
	boot := now.Add(-72 * time.Hour)
	return &Backend{
		Details: []client.WorkloadDetail{
			train, failed,
			job("deployment/shop/cart", "cart", "shop", 26*time.Hour, 0.4, 300<<20, "n1"),
			job("unit/nginx.service", "nginx.service", "root", 70*time.Hour, 0.02, 50<<20, "n2"),
			job("session/alice/3", "3", "alice", 5*time.Hour, 0.1, 700<<20, "n1"),
			bare,
		},
		Machine: []client.Node{
			{Node: "n1", Site: "lab", Agent: true, Up: true, Seen: now, Boot: &boot, Cores: f(16), CoresUsed: f(4.1),
				MemoryBytes: f(64 << 30), MemoryUsed: f(20 << 30),
				Load1: f(5.2), CPUPressure: f(0.031), NetworkBytes: f(2 << 20), DiskBytes: f(5 << 20), Workloads: 4, AgentCPU: f(0.004),
				AgentMemory:   f(20 << 20),
				Sensors:       []client.Sensor{{Sensor: "task", Up: true}, {Sensor: "rapl", Reason: "no such hardware"}},
				KernelRelease: "6.12.0",
				GPUs:          f(2),
				Batch: &client.NodeBatch{State: "mixed", Open: true, Partitions: []string{"gpu"}, Cores: f(16), CoresHeld: f(12),
					MemoryBytes: f(60 << 30), MemoryHeld: f(40 << 30),
					GPUs: f(2), GPUsHeld: f(1)},
				Day: &client.NodeSpan{Since: now.AddDate(0, 0, -1), UpSeconds: f(86400), UpShare: f(1), CoresUsed: f(4), CPUShare: f(0.25),
					MemoryShare:       f(0.5),
					UnusedCoreSeconds: f(12 * 86400), GPUSeconds: f(3600), EnergyJoules: f(3e7)},
				Week: &client.NodeSpan{Since: now.AddDate(0, 0, -7), UpSeconds: f(6 * 86400), UpShare: f(6. / 7), CoresUsed: f(8),
					CPUShare: f(0.5), UnusedCoreSeconds: f(48 * 86400)},
				Waiting: &client.NodeWaiting{Jobs: 3, Now: 1, CoreSeconds: 7200}},
			{Node: "n2", Site: "lab", Agent: true, Seen: now.Add(-time.Hour), Cores: f(8), MemoryBytes: f(32 << 30), Workloads: 2,
				Sensors: []client.Sensor{{Sensor: "rapl", Reason: "no such hardware"}}},
		},
	}
}

// waveProfile returns a profile that oscillates around its mean.
func waveProfile(metric, unit string, start time.Time, wall time.Duration, mean float64) client.Profile {
	p := client.Profile{Metric: metric, Unit: unit}
	const n = 120
	for i := range n {
		at := start.Add(wall / n * time.Duration(i+1))
		p.Points = append(p.Points, client.Point{Time: at, Value: f(mean * (1 + 0.8*math.Sin(float64(i)/9)))})
	}
	return p
}

// Tick returns a tick of the agent of n1: n workloads, the busiest first.
func Tick(now time.Time, n int) client.Live {
	l := client.Live{Time: now.UTC(), Node: "n1", Cores: 16, CoresUsed: f(4.1), Memory: f(64 << 30), MemUsed: f(20 << 30),
		Workloads: []client.LiveWorkload{}}
	owners := []string{"alice", "bob", "root"}
	for i := range n {
		w := client.LiveWorkload{
			ID: fmt.Sprintf("slurm/%d", 4711+i), Part: "batch", Name: fmt.Sprintf("train%d", i), Owner: owners[i%3],
			Cores: 3.2 / float64(i+1), CPUSeconds: float64(100 * (i + 1)),
			MemoryBytes: f(float64(i+1) * (100 << 20)), MemoryPeak: f(float64(i+1) * (150 << 20)), ReadRate: f(float64(i%4) * (1 << 20)),
			WriteRate:   f(1 << 10),
			ReceiveRate: f(float64(i%7) * 1e6), TransmitRate: f(2e3), Wait: f(0.05), Processes: n - i, Threads: 2 * (n - i),
			Command: "python3", StartedAt: now.Unix() - int64(3600*(i+1)),
		}
		if i%5 == 4 {
			w.ID, w.Part, w.ReadRate, w.WriteRate, w.Wait = fmt.Sprintf("unit/daemon%d.service", i), "", nil, nil, nil
			w.ReceiveRate, w.TransmitRate = nil, nil
		}
		l.Workloads = append(l.Workloads, w)
	}
	return l
}
