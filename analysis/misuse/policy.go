package misuse

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Duration is a length of time, written as 10m or 2h.
type Duration time.Duration

// Seconds is the length in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// text is the length as people write it: 1m, 1h30m, 2.5s.
func (d Duration) text() string {
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

// Policy holds the thresholds of all rules. [Defaults] are those of the program.
type Policy struct {
	Hog        HogRule        `yaml:"hog"`
	Misfit     MisfitRule     `yaml:"misfit"`
	Greedy     GreedyRule     `yaml:"greedy"`
	Deadweight DeadweightRule `yaml:"deadweight"`
	Vampire    VampireRule    `yaml:"vampire"`
	Thrash     ThrashRule     `yaml:"thrash"`
	Imbalance  ImbalanceRule  `yaml:"imbalance"`
}

// HogRule is about owners on a node.
type HogRule struct {
	On bool `yaml:"on"`
	// When a resource is contended, and who wants it: see analysis/hog.
	Full      float64 `yaml:"full"`
	Pressure  float64 `yaml:"pressure"`
	Available float64 `yaml:"available"`
	Wants     float64 `yaml:"wants"`
	// Exempt are owners who are not told, such as root: their use counts in everybody's
	// shares all the same. Patterns as in the shell.
	Exempt []string `yaml:"exempt"`
	// Seconds of the whole machine from which it is a finding, and from which a grave one.
	Seconds float64 `yaml:"seconds"`
	High    float64 `yaml:"high_seconds"`
}

// Exempts reports whether an owner is not told.
func (r *HogRule) Exempts(owner string) bool { return exempt(r.Exempt, owner) }

func exempt(patterns []string, owner string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, owner)
		return ok && err == nil
	})
}

// MisfitRule is about work on the wrong machine.
type MisfitRule struct {
	On           bool     `yaml:"on"`
	Minimum      Duration `yaml:"minimum"`
	CPUShare     float64  `yaml:"cpu_share"`
	GPUBusy      float64  `yaml:"gpu_busy"`
	GPUMinimum   Duration `yaml:"gpu_minimum"`
	GPUHighHours float64  `yaml:"gpu_high_hours"`
}

// GreedyRule is about requests far above use.
type GreedyRule struct {
	On        bool     `yaml:"on"`
	Minimum   Duration `yaml:"minimum"`
	Share     float64  `yaml:"share"`
	MinCores  float64  `yaml:"min_cores"`
	MinMemory float64  `yaml:"min_memory_bytes"`
	CoreHours float64  `yaml:"core_hours"`
	GiBHours  float64  `yaml:"gib_hours"`
}

// DeadweightRule is about what is held and dead.
type DeadweightRule struct {
	On      bool     `yaml:"on"`
	GPUIdle Duration `yaml:"gpu_idle"`
	Empty   Duration `yaml:"empty"`
	// Zombies is how many dead processes of an owner on a node matter when they stay for
	// ZombiesFor.
	Zombies    float64  `yaml:"zombies"`
	ZombiesFor Duration `yaml:"zombies_for"`
}

// VampireRule is about many small jobs.
type VampireRule struct {
	On         bool     `yaml:"on"`
	Count      int      `yaml:"count"`
	Short      Duration `yaml:"short"`
	ShortCount int      `yaml:"short_count"`
	// Exempt are owners who are not told, as in [HogRule].
	Exempt []string `yaml:"exempt"`
}

// ThrashRule is about work that harms itself.
type ThrashRule struct {
	On             bool     `yaml:"on"`
	Minimum        Duration `yaml:"minimum"`
	FaultRate      float64  `yaml:"fault_rate"`
	SwapShare      float64  `yaml:"swap_share"`
	ThrottledShare float64  `yaml:"throttled_share"`
}

// ImbalanceRule is about nodes and GPUs of one job.
type ImbalanceRule struct {
	On      bool     `yaml:"on"`
	Minimum Duration `yaml:"minimum"`
	Idle    float64  `yaml:"idle"`
	Busy    float64  `yaml:"busy"`
	GPUBusy float64  `yaml:"gpu_busy"`
}
