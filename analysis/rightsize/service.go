package rightsize

import (
	"math"
	"slices"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/phrase"
	"reckon/metric"
)

// Day is the use of one replica of a service's container in a day, or of all replicas together.
// Unmeasured figures are nil.
type Day struct {
	Cores       *metric.Histogram // cores in use, one observation for each of [ServiceConfig.Of]
	MemoryPeak  *float64          // highest needed memory of any replica, bytes
	GPUs        *float64          // mean number of busy GPUs
	OutOfMemory bool              // a process was killed for lack of memory
}

// Request is the request of a replica; a nil figure is unknown or not requested.
type Request struct{ Cores, Memory *float64 }

// ServiceConfig defines the permitted excess over a request.
type ServiceConfig struct {
	// Price is the cost of a second above the request: equal to a second in which this multiple of the mean use is idle.
	Price float64
	// LeastShare and MostShare bound the share of the past in which the use was within the request.
	LeastShare, MostShare float64
	// Of is the time covered by one observation of cores: seconds or minutes.
	Of string
	// Deviations is the number of standard deviations of the daily peaks that is added to their mean. From 3.7 on,
	// memory is never below the highest of 14 peaks.
	Deviations float64
}

// ServiceDefault requests cores between the p90 and the p99.9 of one-second use, and memory of at least the highest peak.
func ServiceDefault() ServiceConfig {
	return ServiceConfig{Price: 40, LeastShare: 0.9, MostShare: 0.999, Deviations: 4, Of: "seconds"}
}

const (
	// LeastDays is the minimum number of measured days.
	LeastDays = 2
	// CoreDays and MemoryDays are the number of evaluated days. For cores, a day has half the weight of the one a week later.
	CoreDays, MemoryDays = 28, 14
	halfLife             = 7.0
	// fewDays is the number of days below which the peaks do not show their variation.
	fewDays = 7
	// mostMemory is the maximum ratio of memory to the highest peak.
	mostMemory = 1.15
)

// ServiceAdvice is the recommended request of a replica of a service.
type ServiceAdvice struct {
	Days          int // number of days it is based on
	Cores, Memory *float64
	GPUShare      *float64 // of GPUs, on the busiest day; nil if not measured
	P95, P99      *float64 // of the use of cores in each of [ServiceConfig.Of]
	MemoryPeak    *float64 // highest
	// Tested is the result of the rule on past days, Now the result for the current request; nil if unknown.
	TestedCores, TestedMemory, NowCores, NowMemory *Test
	Why                                            []phrase.Sentence
}

// Test is the result of a request on days after those that it was computed from.
type Test struct {
	Days  int
	Slack float64 // share of the request that was idle
	Above float64 // share of the seconds, or for memory of the days, with more use than the request
}

// Service returns the recommended request of a replica after the given days, the latest last; nil if there are too few.
func Service(days []Day, now Request, c ServiceConfig) *ServiceAdvice {
	a := &ServiceAdvice{}
	a.recommendCores(days, now, &c)
	a.recommendMemory(days, now, &c)
	a.recommendGPUs(days)
	if a.Cores == nil && a.Memory == nil {
		return nil
	}
	return a
}

func (a *ServiceAdvice) addReason(key string, words phrase.Words) {
	a.Why = append(a.Why, texts.Sentence(key, words))
}

func (a *ServiceAdvice) recommendCores(days []Day, now Request, c *ServiceConfig) {
	n := 0
	for _, d := range lastDays(days, CoreDays) {
		if d.Cores != nil && d.Cores.Count > 0 {
			n++
		}
	}
	request := func(past []Day) (float64, bool) {
		v, ok := Cores(past, *c)
		return roundCores(v), ok
	}
	v, ok := request(days)
	if !ok {
		return
	}
	use := mergeDays(days)
	p95, p99 := use.quantile(0.95), use.quantile(0.99)
	a.Days, a.Cores, a.P95, a.P99 = n, &v, &p95, &p99
	a.TestedCores = testCores(days, request)
	words := phrase.Words{"cores": phrase.Count(v), "p95": phrase.AtMost(p95), "p99": phrase.AtMost(p99), "days": daysText(n), "of": c.Of}
	a.addReason("service.cores", words)
	if t := a.TestedCores; t != nil {
		a.addReason("service.cores.tested", phrase.Words{"above": phrase.Percent(t.Above), "slack": phrase.Percent(t.Slack),
			"days": daysText(t.Days)})
	}
	if has, ok := figure.Known(now.Cores); ok && has > 0 {
		a.NowCores = testCores(days, func([]Day) (float64, bool) { return has, true })
		if t := a.NowCores; t != nil {
			a.addReason("service.cores.now", phrase.Words{"has": phrase.Count(has), "above": phrase.Percent(t.Above),
				"slack": phrase.Percent(t.Slack)})
		}
	}
}

func (a *ServiceAdvice) recommendMemory(days []Day, now Request, c *ServiceConfig) {
	has, _ := figure.Known(now.Memory)
	request := func(past []Day) (float64, bool) {
		v, ok := Memory(past, *c)
		if peaks, killed := dailyPeaks(past); killed && ok {
			v = max(v, raised*max(has, slices.Max(peaks))) // the peak was limited by the memory it had: the need is higher
		}
		return roundService(v), ok
	}
	v, ok := request(days)
	if !ok {
		return
	}
	peaks, killed := dailyPeaks(days)
	most, n := 0.0, len(peaks)
	for _, p := range peaks {
		most = max(most, p)
	}
	key := "service.memory"
	if killed {
		key = "service.memory.killed"
	}
	a.Days, a.Memory, a.MemoryPeak = max(a.Days, n), &v, &most
	a.addReason(key, phrase.Words{"memory": phrase.Bytes(v), "peak": phrase.Bytes(most), "days": daysText(n)})
	a.TestedMemory = testMemory(days, request)
	if t := a.TestedMemory; t != nil {
		a.addReason("service.memory.tested",
			phrase.Words{"above": phrase.Count(math.Round(t.Above * float64(t.Days))), "slack": phrase.Percent(t.Slack),
				"days": daysText(t.Days)})
	}
	if has > 0 {
		a.NowMemory = testMemory(days, func([]Day) (float64, bool) { return has, true })
	}
}

func (a *ServiceAdvice) recommendGPUs(days []Day) {
	most, n := 0.0, 0
	for _, d := range lastDays(days, CoreDays) {
		if v, ok := figure.Known(d.GPUs); ok {
			most, n = max(most, v), n+1
		}
	}
	if n < LeastDays {
		return
	}
	a.GPUShare = &most
	if a.Cores != nil || a.Memory != nil {
		a.addReason("service.gpus", phrase.Words{"busy": phrase.Count(most), "days": daysText(n)})
	}
}

// Cores returns the number of cores to request, based on the given days. A higher request would cover more seconds, but
// not enough to be worth c.Price. ok is false for fewer than [LeastDays].
func Cores(days []Day, c ServiceConfig) (float64, bool) {
	use := mergeDays(days)
	if use.days < LeastDays || use.total <= 0 {
		return 0, false
	}
	v := use.bestRequest(c.Price * use.mean)
	return min(max(v, use.ceiling(c.LeastShare)), use.ceiling(c.MostShare)), true
}

// Memory returns the memory to request in bytes: the mean of the daily peaks plus a number of standard deviations. It
// is limited to 15 % above the highest peak, and is exactly that for few days. ok is false for fewer than [LeastDays].
func Memory(days []Day, c ServiceConfig) (float64, bool) {
	peaks, _ := dailyPeaks(days)
	n := float64(len(peaks))
	if len(peaks) < LeastDays {
		return 0, false
	}
	sum, most := 0.0, 0.0
	for _, p := range peaks {
		sum, most = sum+p, max(most, p)
	}
	if len(peaks) < fewDays {
		return mostMemory * most, most > 0
	}
	squares := 0.0
	for _, p := range peaks {
		squares += (p - sum/n) * (p - sum/n)
	}
	return min(sum/n+c.Deviations*math.Sqrt(squares/n), mostMemory*most), most > 0
}

// dailyPeaks returns the daily peaks, and whether memory was insufficient on one of the days.
func dailyPeaks(days []Day) (peaks []float64, killed bool) {
	for _, d := range lastDays(days, MemoryDays) {
		if v, ok := figure.Known(d.MemoryPeak); ok && v > 0 {
			peaks = append(peaks, v)
		}
		killed = killed || d.OutOfMemory
	}
	return peaks, killed
}

func lastDays(days []Day, n int) []Day { return days[max(0, len(days)-n):] }

// roundService rounds memory up to MiB below 1 GiB, because services are often that small, and otherwise as for jobs.
func roundService(bytes float64) float64 {
	if bytes <= 1<<30 {
		return math.Ceil(bytes/(1<<20)-1e-9) * (1 << 20)
	}
	rounded, _ := roundMemory(bytes)
	return rounded
}

// roundCores rounds up to hundredths below one core, to twentieths below ten, otherwise to halves.
func roundCores(v float64) float64 {
	unit := 2.0 // parts of a core
	switch {
	case v <= 1:
		unit = 100
	case v <= 10:
		unit = 20
	}
	return max(math.Ceil(v*unit-1e-9)/unit, 0.01)
}

func daysText(n int) phrase.Text {
	if n == 1 {
		return phrase.Number(1, "count", "1 day")
	}
	return phrase.Number(float64(n), "count", format.Count(float64(n))+" days")
}
