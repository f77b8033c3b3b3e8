package figure

// Rules that bound figures. Their values are the label rule of reckon_inconsistent_figures_total.
const (
	PeakWithinLimit          = "peak_within_limit"
	PeakWithinMachine        = "peak_within_machine"
	UseWithinAllocation      = "use_within_allocation" // only where a cpuset or a device enforces it
	CPUWithinWall            = "cpu_within_wall"       // CPU seconds against wall seconds times the cores of the nodes
	SpeedupWithinConcurrency = "speedup_within_concurrency"
	ShareWithinWhole         = "share_within_whole"
	SumWithinWhole           = "sum_within_whole" // parts, means and quantiles against the whole that contains them
)

// Facts of a run that bound its figures; they are not figures themselves.
const (
	WallSeconds   = "wall_seconds"
	MachineCores  = "machine_cores"        // sum over its nodes
	MachineMemory = "machine_memory_bytes" // sum over its nodes
)

// limitCores is the key of the hard CPU limit, cores.
const limitCores = "limit_cores"

// Bound is an upper bound of a figure: the product of other figures and facts of the same run, by key.
type Bound struct {
	Rule string
	By   []string
	Of   string // for people: "wall time by the cores of its nodes"
}

// Bounds used in the table.
var (
	withinWall    = Bound{CPUWithinWall, []string{WallSeconds, MachineCores}, "wall time by the cores of its nodes"}
	withinCores   = Bound{CPUWithinWall, []string{MachineCores}, "the cores of its nodes"}
	withinMachine = Bound{PeakWithinMachine, []string{MachineMemory}, "the memory of its nodes"}
	withinCPU     = Bound{SumWithinWhole, []string{"cpu_seconds"}, "cpu_seconds"}
	withinQuota   = Bound{UseWithinAllocation, []string{limitCores}, "its limit of cores"}
	withinTime    = Bound{UseWithinAllocation, []string{WallSeconds, limitCores}, "wall time by its limit of cores"}
	withinLimit   = Bound{PeakWithinLimit, []string{"limit_memory_bytes"}, "its memory limit"}
)

// Product returns the product of the bound's factors, each looked up by of, or nil if a factor is unknown.
func (b *Bound) Product(of func(key string) *float64) *float64 {
	product := 1.0
	for _, key := range b.By {
		v := of(key)
		if v == nil {
			return nil
		}
		product *= *v
	}
	return &product
}
