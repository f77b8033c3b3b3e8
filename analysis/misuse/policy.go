package misuse

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Duration is a length of time, written as 10m or 2h.
type Duration time.Duration

// Seconds returns the duration in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// format formats the duration in the usual notation: 1m, 1h30m, 2.5s.
func (d Duration) format() string {
	x := time.Duration(d)
	switch {
	case x >= 10*time.Second:
		x = x.Round(time.Second)
	case x >= time.Second:
		x = x.Round(100 * time.Millisecond)
	default:
		x = x.Round(time.Millisecond)
	}
	text := x.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// OverShareRule is about owners on a node.
type OverShareRule struct {
	On bool `yaml:"on"`
	// When a resource is contended, and which owners want it: see analysis/fairshare.
	Full      float64 `yaml:"full" limit:"share"`
	Pressure  float64 `yaml:"pressure" limit:"share"`
	Available float64 `yaml:"available" limit:"share"`
	Wants     float64 `yaml:"wants" limit:"share"`
	// Exempt are owners without findings, such as root, as shell patterns. Their use still counts
	// in the shares of others.
	Exempt []string `yaml:"exempt"`
	// Seconds of the whole machine from which there is a finding, and from which it is of high severity.
	Seconds float64 `yaml:"seconds" limit:"above 0"`
	High    float64 `yaml:"high_seconds" limit:"above 0"`
}

// Exempts reports whether an owner is exempt.
func (r *OverShareRule) Exempts(owner string) bool { return isExempt(r.Exempt, owner) }

func isExempt(patterns []string, owner string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, owner)
		return ok && err == nil
	})
}

// GPUUnusedRule is about work on unsuitable nodes.
type GPUUnusedRule struct {
	On           bool     `yaml:"on"`
	Minimum      Duration `yaml:"minimum"`
	CPUShare     float64  `yaml:"cpu_share" limit:"share"`
	GPUBusy      float64  `yaml:"gpu_busy" limit:"share"`
	GPUMinimum   Duration `yaml:"gpu_minimum"`
	GPUHighHours float64  `yaml:"gpu_high_hours"`
}

// OverRequestedRule is about requests far above use.
type OverRequestedRule struct {
	On        bool     `yaml:"on"`
	Minimum   Duration `yaml:"minimum"`
	Share     float64  `yaml:"share" limit:"share"`
	MinCores  float64  `yaml:"min_cores"`
	MinMemory float64  `yaml:"min_memory_bytes"`
	CoreHours float64  `yaml:"core_hours" limit:"above 0"`
	GiBHours  float64  `yaml:"gib_hours" limit:"above 0"`
}

// IdleAllocationRule is about allocations without activity.
type IdleAllocationRule struct {
	On      bool     `yaml:"on"`
	GPUIdle Duration `yaml:"gpu_idle"`
	Empty   Duration `yaml:"empty"`
	// Zombies is the minimum number of zombies of an owner on a node for a finding, if they stay for ZombiesFor.
	Zombies    float64  `yaml:"zombies" of:"node" limit:"above 0"`
	ZombiesFor Duration `yaml:"zombies_for" of:"node"`
}

// ShortRunTime returns the run time below which an ended workload without an allocation breaks no rule by itself. Such a
// workload counts as short. The result is one minute or less.
func (p *Policy) ShortRunTime() time.Duration {
	least := p.shortest(Duration(time.Minute), func(n Needs) bool { return !n.Running })
	if p.ManySmallJobs.On {
		least = min(least, p.ManySmallJobs.Short)
	}
	return time.Duration(least)
}

// HarmlessRunTime returns the run time below which a workload without an allocation breaks no rule by itself, up to an hour. It
// may exceed [Policy.ShortRunTime], because ManySmallJobs does not count longer workloads as short.
func (p *Policy) HarmlessRunTime() time.Duration {
	return time.Duration(p.shortest(Duration(time.Hour), func(Needs) bool { return true }))
}

// ManySmallJobsRule is about many small jobs.
type ManySmallJobsRule struct {
	On         bool     `yaml:"on"`
	Count      int      `yaml:"count" limit:"above 0"`
	Short      Duration `yaml:"short"`
	ShortCount int      `yaml:"short_count" limit:"above 0"`
	// Exempt are owners without findings, as in [OverShareRule].
	Exempt []string `yaml:"exempt"`
}

// MemoryThrashingRule is about work that slows itself down.
type MemoryThrashingRule struct {
	On             bool     `yaml:"on"`
	Minimum        Duration `yaml:"minimum"`
	FaultRate      float64  `yaml:"fault_rate" limit:"above 0"`
	SwapShare      float64  `yaml:"swap_share" limit:"share"`
	ThrottledShare float64  `yaml:"throttled_share"`
}

// ManyConnectionsRule is about work that connects to a service in a loop.
type ManyConnectionsRule struct {
	On      bool     `yaml:"on"`
	Minimum Duration `yaml:"minimum"`
	// Rate of connections per second from which there is a finding, and from which it is of high severity.
	Rate     float64 `yaml:"rate" limit:"above 0"`
	HighRate float64 `yaml:"high_rate" limit:"above 0"`
	// Exempt are owners without findings, as in [OverShareRule].
	Exempt []string `yaml:"exempt"`
}

// StoragePatternRule is about inefficient use of storage.
type StoragePatternRule struct {
	On      bool     `yaml:"on"`
	Minimum Duration `yaml:"minimum"`
	// MetadataRate of requests per second from which there is a finding, and from which it is of high severity.
	MetadataRate     float64 `yaml:"metadata_rate" limit:"above 0"`
	MetadataHighRate float64 `yaml:"metadata_high_rate" limit:"above 0"`
	// Bytes is the minimum amount read or written for a finding.
	Bytes float64 `yaml:"bytes" limit:"above 0"`
	// Again is the share of the data read that had recently been in memory.
	Again float64 `yaml:"again" limit:"share"`
	// Nodes is the minimum size of a job in which one node writes WriterShare of all.
	Nodes       int     `yaml:"nodes" limit:"above 0"`
	WriterShare float64 `yaml:"writer_share" limit:"share"`
	// Exempt are owners without findings, as in [OverShareRule].
	Exempt []string `yaml:"exempt"`
}

// CannotStartRule is about jobs that wait for ever.
type CannotStartRule struct {
	On      bool     `yaml:"on"`
	Minimum Duration `yaml:"minimum"`
}

// ImbalanceRule finds idle nodes, tasks and GPUs of a job.
type ImbalanceRule struct {
	On      bool     `yaml:"on"`
	Minimum Duration `yaml:"minimum"`
	Idle    float64  `yaml:"idle" limit:"share"`
	Busy    float64  `yaml:"busy"`
	Tasks   float64  `yaml:"tasks" limit:"share"`
	GPUBusy float64  `yaml:"gpu_busy" limit:"share"`
}
