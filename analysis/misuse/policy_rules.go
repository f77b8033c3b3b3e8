// Code generated from analysis/misuse/rules by go generate ./analysis/misuse; DO NOT EDIT.

package misuse

// Names of the rules.
const (
	OverShare       = "over-share"
	GPUUnused       = "gpu-unused"
	OverRequested   = "over-requested"
	IdleAllocation  = "idle-allocation"
	ManySmallJobs   = "many-small-jobs"
	MemoryThrashing = "memory-thrashing"
	Imbalance       = "imbalance"
	ManyConnections = "many-connections"
	StoragePattern  = "storage-pattern"
	CannotStart     = "cannot-start"
	Anomaly         = "anomaly"
	UnusedOverTime  = "unused-over-time"
)

// Rules returns the names of all rules.
func Rules() []string {
	return []string{
		OverShare,
		GPUUnused,
		OverRequested,
		IdleAllocation,
		ManySmallJobs,
		MemoryThrashing,
		Imbalance,
		ManyConnections,
		StoragePattern,
		CannotStart,
		Anomaly,
		UnusedOverTime,
	}
}

// Policy holds the thresholds of all rules. Their defaults are those of the program.
type Policy struct {
	OverShare       OverShareRule       `yaml:"over-share"`
	GPUUnused       GPUUnusedRule       `yaml:"gpu-unused"`
	OverRequested   OverRequestedRule   `yaml:"over-requested"`
	IdleAllocation  IdleAllocationRule  `yaml:"idle-allocation"`
	ManySmallJobs   ManySmallJobsRule   `yaml:"many-small-jobs"`
	MemoryThrashing MemoryThrashingRule `yaml:"memory-thrashing"`
	Imbalance       ImbalanceRule       `yaml:"imbalance"`
	ManyConnections ManyConnectionsRule `yaml:"many-connections"`
	StoragePattern  StoragePatternRule  `yaml:"storage-pattern"`
	CannotStart     CannotStartRule     `yaml:"cannot-start"`
	Anomaly         AnomalyRule         `yaml:"anomaly"`
	UnusedOverTime  UnusedOverTimeRule  `yaml:"unused-over-time"`
}

// rules returns the thresholds of all rules.
func (p *Policy) rules() []any {
	return []any{
		&p.OverShare,
		&p.GPUUnused,
		&p.OverRequested,
		&p.IdleAllocation,
		&p.ManySmallJobs,
		&p.MemoryThrashing,
		&p.Imbalance,
		&p.ManyConnections,
		&p.StoragePattern,
		&p.CannotStart,
		&p.Anomaly,
		&p.UnusedOverTime,
	}
}
