package sensor

// Domain says what part of a node a meter measures. Domains overlap: psys holds
// everything on the board that the processor can see, package holds core and uncore,
// so they are never summed with each other.
type Domain string

// The domains of energy.
const (
	DomainPackage Domain = "package" // a processor package: cores, caches, memory controller
	DomainCore    Domain = "core"    // the cores of a package; part of it
	DomainUncore  Domain = "uncore"  // integrated graphics and the like; part of a package
	DomainDRAM    Domain = "dram"    // memory modules; beside the package
	DomainPsys    Domain = "psys"    // the platform: packages, memory and more
	DomainGPU     Domain = "gpu"     // a graphics processor or accelerator
	DomainBoard   Domain = "board"   // the whole board, chassis or node at its input
	DomainRail    Domain = "rail"    // one supply rail of a board; part of it
)

// Meter is one reading of one meter.
type Meter struct {
	Domain Domain
	// Zone tells meters of one domain apart: the number of the package, the name of
	// the rail. It stays the same while the node runs.
	Zone string
	// Joules is energy since some zero that does not move while the source is open:
	// sources undo the wrap-around of their registers. It is set when HasJoules.
	Joules float64
	// Watts is the power now, for meters without a counter; set when HasWatts.
	Watts     float64
	HasJoules bool
	HasWatts  bool
}

// MeterSource reads meters of energy or power.
//
// A [Sensor] that is one as well needs nothing else to take part in attribution: the
// agent reads the meters of every such sensor of sensor/all at each internal tick, so
// ReadMeters never waits (a slow source reads in the background and hands out what it
// has) and Read may write what ReadMeters gave last with [MeterSeries]. A meter with a
// counter sets Joules; one that only knows its power now sets Watts, and attribution
// integrates it. Where several sources meter one domain only one of them counts:
// attribution says which.
//
// A meter that can not be read, or whose value has not been renewed by the hardware,
// is left out: what is absent is not zero. It is used from one goroutine and does not
// allocate after warm-up.
type MeterSource interface {
	Name() string
	// ReadMeters appends the readings to dst. An error names what could not be read;
	// the meters appended beside it are valid.
	ReadMeters(dst []Meter) ([]Meter, error)
	Close() error
}

// ModelledSource is a source of meters whose figures may come from a power model elsewhere. They
// then count as that of a named model: where something measures, that counts.
type ModelledSource interface {
	MeterSource
	// ModelledMeters reports whether what ReadMeters gave last is modelled.
	ModelledMeters() bool
}
