package metricrun

import "maps"

// Figures are numbers by the name of the field of client.ProbeUse, such as cpu_seconds. One that is not
// there could not be read.
//
// +kubebuilder:object:generate=false
type Figures map[string]float64

// DeepCopy returns a copy.
func (f Figures) DeepCopy() Figures { return maps.Clone(f) }

// DeepCopyInto copies into out.
func (f Figures) DeepCopyInto(out *Figures) { *out = maps.Clone(f) }
