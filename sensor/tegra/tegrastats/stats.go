// Package tegrastats reads the output lines of NVIDIA's program of that name on Jetson
// and other Tegra machines ("tegrastats Utility", Jetson Linux Developer Guide), of every
// release of Jetson Linux (L4T) from 21 to 39. Each board and each release writes other
// fields; a field is recognised by the form of its value, so that new rails, engines and
// temperatures are read as well:
//
//	VDD_IN 6140/5510            a rail in mW: now, and the average since the start
//	VDD_IN 2763mW/2846mW        the same since L4T 35; L4T 39 adds a third figure
//	GR3D_FREQ 0%@[114]          the GPU: share busy, clock in MHz of each cluster
//	NVENC 79%@166   NVDEC off   an engine: share and clock, or off
//	cpu@52.3C  CV0@-256C        a temperature; -256 is a sensor that is off
//	CPU [47%@1420,off]          cores
//
// The program is not started: [Reader] follows a file or a named pipe that it writes to.
// Figures are in base units: watts, hertz, bytes, degrees Celsius, shares of 1.
//
// A Parser and a Reader are used from one goroutine each; a Stats is valid until the next
// line is parsed into it.
package tegrastats

// Stats is the content of one line. Missing fields are unknown: slices are empty and values are not OK.
type Stats struct {
	RAMUsed, RAMTotal               Value // bytes
	SwapUsed, SwapTotal, SwapCached Value // bytes
	FreeBlocks, FreeBlockSize       Value // the largest free blocks: their number, bytes of each
	CPUs                            []CPU
	GPU, Memory                     Engine // GR3D, and the memory controller (EMC)
	Clusters                        []float64
	Engines                         []Engine
	Foreground, Background          Value // shares of the translation of code (MTS)
	Temperatures                    []Temperature
	Rails                           []Rail
}

// Value is a figure that may be missing.
type Value struct {
	V  float64
	OK bool
}

// CPU is one core.
type CPU struct {
	Online bool
	Busy   Value // share
	Hertz  Value
}

// Engine is a unit with a clock.
type Engine struct {
	Name  string
	Off   bool
	Busy  Value // share
	Hertz Value
}

// Temperature is one zone, in degrees Celsius.
type Temperature struct {
	Name    string
	Celsius float64
}

// Rail is one supply rail.
type Rail struct {
	Name    string
	Watts   float64
	Average Value // watts, since tegrastats was started
}

// Reset empties s and keeps its memory.
func (s *Stats) Reset() {
	*s = Stats{
		CPUs: s.CPUs[:0], Clusters: s.Clusters[:0], Engines: s.Engines[:0],
		Temperatures: s.Temperatures[:0], Rails: s.Rails[:0],
	}
}

// totalRails are the names of rails that include all other rails, the outermost first. These are the input of the carrier
// board (Thor; TX1 and TX2), and then the input of the module.
var totalRails = []string{"VIN", "VDD_MUX", "VDD_IN", "POM_5V_IN"}

// SumOfRails is the zone of a total that has no rail of its own.
const SumOfRails = "sum of rails"

// Total returns the power of the board in watts and the name of its rail. If no rail includes all others, it returns
// the sum of the rails and SumOfRails. VIN_SYS_5V0 is not a total. On AGX Orin and Thor it is a separate 5 V input that
// shows less than VDD_CPU_CV alone under load.
func Total(rails []Rail) (name string, watts float64, ok bool) {
	for _, t := range totalRails {
		for i := range rails {
			if rails[i].Name == t {
				return t, rails[i].Watts, true
			}
		}
	}
	for i := range rails {
		watts += max(rails[i].Watts, 0)
	}
	return SumOfRails, watts, len(rails) > 0
}
