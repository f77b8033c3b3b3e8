package sensor

import "time"

// Gap is the longest time between two power readings over which power is integrated to energy. The energy of a longer
// gap is unknown and not counted. Gap exceeds the longest usual export interval, because some meters are read only at
// exports.
const Gap = 90 * time.Second

// Integral integrates power readings to energy by the trapezoid rule. Its zero value is ready for use. The energy never
// decreases, because gaps, missing meters and negative readings add nothing.
type Integral struct {
	joules float64
	watts  float64
	at     time.Time
}

// Add adds a reading and returns the energy since the first one in joules.
func (i *Integral) Add(now time.Time, watts float64) float64 {
	watts = max(watts, 0)
	if !(watts < MaxWatts) {
		i.at = time.Time{}
		return i.joules
	}
	if d := now.Sub(i.at); !i.at.IsZero() && d > 0 && d <= Gap {
		i.joules += d.Seconds() * (i.watts + watts) / 2
	}
	i.watts, i.at = watts, now
	return i.joules
}

// Busy likewise integrates a share (0 to 1) of a device into seconds.
func (i *Integral) Busy(now time.Time, share float64) float64 { return i.Add(now, min(share, 1)) }

// Break starts a new span: the time between the last reading and the next adds nothing.
func (i *Integral) Break() { i.at = time.Time{} }

// Total returns the energy so far.
func (i *Integral) Total() float64 { return i.joules }
