package figure

// The rules that bound figures, as the label rule of reckon_inconsistent_figures_total has
// them.
const (
	PeakWithinLimit          = "peak_within_limit"
	PeakWithinMachine        = "peak_within_machine"
	UseWithinAllocation      = "use_within_allocation" // where a cpuset or a device binds it
	CPUWithinWall            = "cpu_within_wall"       // CPU seconds against wall seconds by cores of the nodes
	SpeedupWithinConcurrency = "speedup_within_concurrency"
	ShareWithinWhole         = "share_within_whole"
	SumWithinWhole           = "sum_within_whole" // parts, means and quantiles against what contains them
)

// Facts of a run that bound figures, beside other figures.
const (
	WallSeconds   = "wall_seconds"
	MachineCores  = "machine_cores"        // of its nodes together
	MachineMemory = "machine_memory_bytes" // of its nodes together
)

// limitCores is the figure of a hard limit of processor time.
const limitCores = "limit_cores"

// Bound is a product of other figures of the run, by key, and of facts that a figure can not
// exceed.
type Bound struct {
	Rule string
	By   []string
	Of   string // for people: "wall time by the cores of its nodes"
}

// The bounds in the table.
var (
	withinWall    = Bound{CPUWithinWall, []string{WallSeconds, MachineCores}, "wall time by the cores of its nodes"}
	withinCores   = Bound{CPUWithinWall, []string{MachineCores}, "the cores of its nodes"}
	withinMachine = Bound{PeakWithinMachine, []string{MachineMemory}, "the memory of its nodes"}
	withinCPU     = Bound{SumWithinWhole, []string{"cpu_seconds"}, "cpu_seconds"}
	withinQuota   = Bound{UseWithinAllocation, []string{limitCores}, "its limit of cores"}
	withinTime    = Bound{UseWithinAllocation, []string{WallSeconds, limitCores}, "wall time by its limit of cores"}
	withinLimit   = Bound{PeakWithinLimit, []string{"limit_memory_bytes"}, "its memory limit"}
)

// Product is what a bound comes to, given what each of its factors is; nil when one is not
// known.
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
