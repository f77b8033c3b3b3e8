package forecast

import (
	"math"
	"slices"
	"time"
)

// prepared is a history in local wall-clock time, without gaps.
type prepared struct {
	y         []float64
	filled    []bool // the value was not recorded
	day, week int    // steps, 0 if the step is not a fraction of a day
	first     int64  // wall-clock slot of y[0]
	flags     Flags
}

// prepareHistory assigns the samples to wall-clock slots, drops old ones, removes spikes and fills gaps.
func prepareHistory(in Input) prepared {
	p := prepared{}
	if in.Step > 0 && 24*time.Hour%in.Step == 0 {
		if d := int(24 * time.Hour / in.Step); d > 1 {
			p.day, p.week = d, 7*d
		}
	}
	values := in.Values
	begin := 0
	if p.day > 0 && len(values) > maxHistory*p.day {
		begin = len(values) - maxHistory*p.day
	} else if p.day == 0 && len(values) > 1024 {
		begin = len(values) - 1024
	}
	p.alignToClock(in, begin)
	return p.cleanHistory(len(in.Values) > 0)
}

// alignToClock sets the values from begin on to the mean of the samples in each step of the wall clock. An hour occurs twice
// when the clock is set back, and is missing when it is set forward.
func (p *prepared) alignToClock(in Input, begin int) {
	if begin >= len(in.Values) {
		return
	}
	p.first = in.clockSlot(begin)
	n := int(in.clockSlot(len(in.Values)-1)-p.first) + 1
	p.y = repeatValue(math.NaN(), max(n, 1))
	count := make([]float64, len(p.y))
	for i := begin; i < len(in.Values); i++ {
		at := int(in.clockSlot(i) - p.first)
		v := in.Values[i]
		if at < 0 || at >= len(p.y) || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		v = clamp(v, -1e100, 1e100)
		if count[at] == 0 {
			p.y[at] = v
		} else {
			p.y[at] += (v - p.y[at]) / (count[at] + 1)
		}
		count[at]++
	}
	if in.hasLocalTime() && (in.utcOffset(begin) != in.utcOffset(len(in.Values)+in.Horizon)) {
		p.flags |= ClockChange
	}
}

func (in Input) hasLocalTime() bool { return in.Location != nil && in.Step > 0 && !in.Start.IsZero() }

// utcOffset returns the offset of the wall clock from UTC at a step, in seconds.
func (in Input) utcOffset(i int) int {
	_, s := in.Start.Add(time.Duration(i) * in.Step).In(in.Location).Zone()
	return s
}

// clockSlot returns the wall-clock number of a step.
func (in Input) clockSlot(i int) int64 {
	if !in.hasLocalTime() {
		return int64(i)
	}
	shift := in.utcOffset(i) - in.utcOffset(0)
	return int64(i) + int64(math.Round(float64(shift)/in.Step.Seconds()))
}

// slotsAhead returns the number of slots to forecast after the last value.
func (p *prepared) slotsAhead(in Input) int {
	if in.Horizon <= 0 {
		return 0
	}
	last := p.first + int64(len(p.y)) - 1
	most := int64(0)
	for _, k := range []int{0, in.Horizon - 1} {
		most = max(most, in.clockSlot(len(in.Values)+k)-last)
	}
	return max(int(most), in.Horizon)
}

// selectSteps selects the forecast of the input's steps from the forecasts of the slots.
func (p *prepared) selectSteps(in Input, slots []float64) []float64 {
	out := make([]float64, in.Horizon)
	last := p.first + int64(len(p.y)) - 1
	for k := range out {
		at := int(in.clockSlot(len(in.Values)+k)-last) - 1
		out[k] = slots[min(max(at, 0), len(slots)-1)]
	}
	return out
}

func (p prepared) cleanHistory(any bool) prepared {
	known := 0
	for _, v := range p.y {
		if !math.IsNaN(v) {
			known++
		}
	}
	if known == 0 {
		p.flags |= NoHistory
		return p
	}
	for math.IsNaN(p.y[0]) {
		p.y, p.first = p.y[1:], p.first+1
	}
	p.flags |= p.dropTrailing()
	p.dropBeforeHole()
	if share := float64(countRecorded(p.y)) / float64(len(p.y)); share <= 0.9 {
		p.flags |= Gaps
	}
	p.removeSpikes()
	p.fillHoles()
	if slices.Max(p.y) == slices.Min(p.y) {
		p.flags |= Constant
	}
	if p.day > 0 && len(p.y) < 2*p.day || p.day == 0 && len(p.y) < 8 {
		p.flags |= Short
	}
	return p
}

// dropTrailing drops unrecorded steps at the end; the forecast starts after the last recorded value.
func (p *prepared) dropTrailing() Flags {
	n := len(p.y)
	for math.IsNaN(p.y[len(p.y)-1]) {
		p.y = p.y[:len(p.y)-1]
	}
	if n-len(p.y) > 1 {
		return Stale
	}
	return 0
}

func countRecorded(y []float64) int {
	n := 0
	for _, v := range y {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// dropBeforeHole drops the data before a hole of a week, if two days follow it.
func (p *prepared) dropBeforeHole() {
	if p.day == 0 {
		return
	}
	run := 0
	for i := range p.y {
		if math.IsNaN(p.y[i]) {
			run++
			continue
		}
		if run >= p.week && len(p.y)-i >= 2*p.day {
			p.y, p.first = p.y[i:], p.first+int64(i)
			p.flags |= Gaps
			p.dropBeforeHole()
			return
		}
		run = 0
	}
}

// spikeFactor is the smallest ratio of the distance of a spike from the median to the distance of the 99th percentile. Spikes must also be
// rare, one value in 200. They are removed, because they do not help to predict the future.
const spikeFactor = 20

// removeSpikes removes values far beyond all others.
func (p *prepared) removeSpikes() {
	sorted := make([]float64, 0, len(p.y))
	for _, v := range p.y {
		if !math.IsNaN(v) {
			sorted = append(sorted, v)
		}
	}
	if len(sorted) < 50 {
		return
	}
	slices.Sort(sorted)
	n := len(sorted)
	rare := max(1, n/200)
	mid := sorted[n/2]
	top, bottom := sorted[n-1-rare], sorted[rare]
	spread := max(top-mid, mid-bottom)
	if spread == 0 {
		// All but a handful of values are equal: the handful is not a level.
		spread = math.Abs(mid) * 1e-9
	}
	for i, v := range p.y {
		if math.Abs(v-mid) > spikeFactor*spread {
			p.y[i] = math.NaN()
			p.flags |= Spike
		}
	}
	if countRecorded(p.y) == 0 {
		p.y = []float64{mid}
		return
	}
	for math.IsNaN(p.y[0]) {
		p.y[0] = mid
		if math.IsNaN(p.y[len(p.y)-1]) {
			p.y[len(p.y)-1] = mid
		}
	}
	if math.IsNaN(p.y[len(p.y)-1]) {
		p.y[len(p.y)-1] = mid
	}
}

// fillHoles interpolates holes of up to three steps linearly, longer ones from the same time of the day before or after.
func (p *prepared) fillHoles() {
	y := p.y
	p.filled = make([]bool, len(y))
	for i := 0; i < len(y); i++ {
		if !math.IsNaN(y[i]) {
			continue
		}
		j := i
		for math.IsNaN(y[j]) {
			j++
		}
		left, right := y[i-1], y[j]
		for k := i; k < j; k++ {
			p.filled[k] = true
			y[k] = left + (right-left)*float64(k-i+1)/float64(j-i+1)
			if j-i <= 3 || p.day == 0 {
				continue
			}
			switch {
			case k >= p.week && !p.filled[k-p.week]:
				y[k] = y[k-p.week]
			case k >= p.day:
				y[k] = y[k-p.day]
			case k+p.day < len(y) && !math.IsNaN(y[k+p.day]) && k+p.day >= j:
				y[k] = y[k+p.day]
			}
		}
		i = j
	}
}
