package sensor

import (
	"reckon/figure"
	"reckon/metric"
)

// Tally counts amounts per process, such as bytes, calls, times and processor events. To add one, write a folder with a
// [TallySpec] and a Read, and add it to the list in reckon/sensor/task. The agent charges, exports, saves and restores
// the amounts according to the specification.
//
// A Tally is used from one goroutine, and Read does not allocate after warm-up.
type Tally interface {
	Spec() *TallySpec
	// Read appends the amounts since the previous call of each process that has any, including ended ones, to p. After
	// a failed reading the next one includes its amounts. Rows appended before an error are valid.
	Read(p *TallyPass) error
	Close() error
}

// PartialTally is a [Tally] that may run without some of its parts.
type PartialTally interface {
	// Missing returns the name under which missing parts are reported, such as "waits-disks", and
	// the reason, or nil if none is missing.
	Missing() (name string, err error)
}

// TallySpec describes the counts of a [Tally]. It is immutable.
type TallySpec struct {
	Name string // of the source, in flags and in reckon_sensor_up
	// Sets are the sets of series. The first is the set of every process; the others have names that are known at run time.
	Sets []TallySet
}

// TallySet is a set of series with the same labels: those of every process, or of one disk or file system.
type TallySet struct {
	// Labels is the number of label values that the name has; 0 for the first set.
	Labels int
	// Most is the number of named sets of the source that a workload has. All others are together in one named "other".
	Most   int
	Series []TallySeries
}

// TallySeries is one of the series of a set, a counter or, in octaves of a second, a native histogram.
type TallySeries struct {
	// Desc has the labels of the account ([Charged]), then those of the set's name, then those of
	// Values. Amounts of a series in seconds are nanoseconds.
	Desc   *metric.Desc
	Values []string
	// Always exports it while it is 0, of every workload if it is of the first set; others begin with their first amount.
	Always bool
	// Total, if not nil, is the source's total over all processes of the node and all names of the
	// set, with the label values TotalValues.
	Total       *metric.Desc
	TotalValues []string
	Figure      *TallyFigure // of the exactness of the series, nil for none
	Weight      TallyWeight
	Rate        TallyRate
}

// TallyFigure is a figure of the API. Its exactness follows from the lacks of its source.
type TallyFigure struct {
	Name   string // in the API: "network_bytes"
	Source string // the label source of reckon_figure_exactness: "sockets"
	Lacks  []Lack
}

// Exactness returns the best that the figure can be.
func (f *TallyFigure) Exactness() (e figure.Exactness) {
	for _, l := range f.Lacks {
		e = e.Worse(l.Exactness())
	}
	return e
}

// TallyWeight is the importance of a series for the activity of a process group.
type TallyWeight uint8

// The weights.
const (
	WeightNone   TallyWeight = iota
	WeightActive             // it has all series
	WeightLong               // and is no short work if it outlives an export interval
	WeightAlways             // and is none, however soon it ends
)

// TallyRate is a current rate that a live view shows.
type TallyRate uint8

// The rates.
const (
	RateNone TallyRate = iota
	RateReceive
	RateTransmit
	RateMemory     // bytes between caches and memory. They are not charged while a monitoring group counts them for the workload
	TallyRates int = iota
)

// A histogram of durations has TallyOctaves buckets. Bucket i counts durations of up to 2^(TallyFirst+i) seconds and
// more than half of that. The first bucket also counts all shorter ones, and the last all longer ones.
const (
	TallyOctaves = 25
	TallyFirst   = -20
)

// TallyRow is an amount since the previous reading.
type TallyRow struct {
	// PID is the process; 0 if it is unknown, not in our pid namespace, or the source had no room for it.
	PID    int32
	Name   uint16 // number of the set by [TallyPass.Named], 0 for the first set
	Series uint8  // index into the series of the set
	// Bound is 0 for an amount and for the sum of a histogram; 1+i for the number of observations in octave i.
	Bound  uint8
	Start  uint64 // of the process, nanoseconds since boot
	Amount uint64
	// Enabled and Running are how long (ns) an event that shares a hardware counter was enabled and
	// counted; 0 for one that always counted.
	Enabled, Running uint64
}

// TallyName identifies a set at run time.
type TallyName struct {
	Set    uint8 // index into TallySpec.Sets, from 1 on
	Labels [2]string
}

// OtherNames is the label value for names beyond the limit of named sets.
const OtherNames = "other"

// TallyPass is one reading of a [Tally]. Its memory is reused.
type TallyPass struct {
	Rows []TallyRow
	// Have has bit i set if series i of the first set is counted on this machine.
	Have uint64
	// Since the previous reading: Gaps reports that counting stopped for some time, Lost is the number of unreported
	// events, and Unowned reports that some amounts have PID 0 because there was no room for their processes.
	Gaps    bool
	Lost    uint64
	Unowned bool
	// Lacks lists the figures that the source cannot count on this machine, besides those that it lacks everywhere.
	Lacks []Lack

	names   []TallyName // by number-1
	numbers map[TallyName]uint16
}

// Reset empties p and keeps its memory and the numbers of its names.
func (p *TallyPass) Reset() {
	p.Rows, p.Have, p.Gaps, p.Lost, p.Unowned, p.Lacks = reuseList(p.Rows), ^uint64(0), false, 0, false, p.Lacks[:0]
}

// Add appends an amount that is not 0.
func (p *TallyPass) Add(pid int32, start uint64, series int, amount uint64) {
	if amount != 0 {
		p.Rows = append(p.Rows, TallyRow{PID: pid, Start: start, Series: uint8(series), Amount: amount})
	}
}

// Named returns the number of a name. The source limits the number of names.
func (p *TallyPass) Named(n TallyName) uint16 {
	i, ok := p.numbers[n]
	if !ok {
		if p.numbers == nil {
			p.numbers = make(map[TallyName]uint16)
		}
		p.names = append(p.names, n)
		i = uint16(len(p.names))
		p.numbers[n] = i
	}
	return i
}

// NameOf returns the name with a number from 1 on.
func (p *TallyPass) NameOf(number uint16) TallyName { return p.names[number-1] }

// Charged returns the labels of a series of an account, followed by others.
func Charged(labels ...string) []string {
	return append([]string{"workload", "kind", "part", "owner"}, labels...)
}

// reuseList returns an empty list that reuses the memory of list. If the last reading used only a small part of the
// memory, it returns nil, so that a burst of short-lived processes does not occupy memory forever.
func reuseList[T any](list []T) []T {
	if cap(list) > spareElements && len(list) < cap(list)/8 {
		return nil
	}
	return list[:0]
}

// spareElements is the largest number of elements for which memory is always kept.
const spareElements = 256
