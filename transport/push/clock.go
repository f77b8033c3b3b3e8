package push

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"reckon/internal/durable"
)

// Clock is a machine's clock that is corrected by the clock of the receiver, so that a machine needs no battery-backed
// clock. Samples have timestamps of the machine's own clock. Each request contains the offset of that clock from the
// time since boot. The Date header of a response gives the true offset, to within half of the round-trip time. The
// fastest of the last responses is used. If none was fast, nothing is corrected. The correction is constant during a
// boot and is added to all times when a request is sent. Samples from before the first connection are therefore
// corrected as well.
type Clock struct {
	// Boot is the id of this boot of the machine, and Since the time since it began, which includes sleep.
	Boot  string
	Since func() time.Duration
	// Now is time.Now unless a test states otherwise.
	Now func() time.Time
}

const (
	// minCorrection is the smallest error at which a clock is corrected. Date has a resolution of one second.
	minCorrection = 10 * time.Second
	// minRepeatCorrection is the error from which on a clock is corrected that was found wrong before.
	minRepeatCorrection = 2 * time.Second
	// minBaseChange is the change of the time by Date from which on it counts as another time.
	minBaseChange = 5 * time.Second
	// maxResponseTime is the longest response time that is used for a correction of the clock. keptResponses is the number of
	// last responses; the fastest is used.
	maxResponseTime = 2 * time.Second
	keptResponses   = 8
	// initialTimeRequests is the number of requests for the receiver's time before the first samples of a boot are sent. More
	// than one is needed, because a new connection or a starting server may delay the first response.
	initialTimeRequests = 3
	// keptBoots is the number of boots remembered.
	keptBoots = 16
)

// bootTime is the time at which a boot began according to some clock, in milliseconds since the Unix epoch.
type bootTime = int64

// corrector corrects the times in requests to one target.
type corrector struct {
	clock Clock
	file  string
	log   *slog.Logger
	shown string

	mu    sync.Mutex
	wrong bool
	boots map[string]bootState
	last  []bootMeasurement // of this boot, the newest last
	asked int               // for the time, before the first request
	noted bool              // that the clock is wrong by less than is corrected, or for sure by how much is not known
}

// bootMeasurement is the start of this boot by the receiver's clock, accurate to half the response time.
type bootMeasurement struct {
	base bootTime
	took time.Duration
}

// bootState is the stored state of a boot.
type bootState struct {
	Base bootTime `json:"base_ms"` // correct
	Seen int64    `json:"seen"`    // order in which the boots were met
}

// newCorrector restores the state of earlier boots from file. It returns nil if the clock of the machine is not corrected.
func newCorrector(c Clock, file, shown string, log *slog.Logger) *corrector {
	if c.Boot == "" || c.Since == nil {
		return nil
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	k := &corrector{clock: c, file: file, log: log, shown: shown, boots: map[string]bootState{}}
	if err := durable.ReadJSON(file, &k.boots); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the clock errors of earlier boots are unknown", "file", file, "err", err)
	}
	return k
}

// stamp returns the current boot, and its start by the clock that gives the samples of a request their times.
func (k *corrector) stamp(at time.Time) (boot string, b bootTime) {
	return k.clock.Boot, at.UnixMilli() - k.clock.Since().Milliseconds()
}

// needsTime reports whether to ask the receiver for its time before a request. It does so a few times while the time is unknown.
func (k *corrector) needsTime() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.boots[k.clock.Boot]
	if ok || k.asked >= initialTimeRequests {
		return false
	}
	k.asked++
	return true
}

// learnDate records the Date header of a response for the correction. from and to are the times since boot of the
// request and the response, and now is the time of the machine's own clock.
func (k *corrector) learnDate(h http.Header, from, to time.Duration, now time.Time) {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return // no Date
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = append(k.last, bootMeasurement{at.UnixMilli() + 500 - (from + (to-from)/2).Milliseconds(), to - from})
	k.last = k.last[max(len(k.last)-keptResponses, 0):]
	best := slices.MinFunc(k.last, func(a, b bootMeasurement) int { return cmp.Compare(a.took, b.took) })
	k.warnOnce(best, now)
	right := best.base
	if best.took >= maxResponseTime {
		return
	}
	old, ok := k.boots[k.clock.Boot]
	if ok && (time.Duration(right-old.Base)*time.Millisecond).Abs() < minBaseChange {
		return
	}
	newest := int64(0)
	for _, b := range k.boots {
		newest = max(newest, b.Seen)
	}
	k.boots[k.clock.Boot] = bootState{Base: right, Seen: newest + 1}
	if len(k.boots) > keptBoots {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(k.boots)),
			func(a, b string) int { return int(k.boots[a].Seen - k.boots[b].Seen) })
		delete(k.boots, oldest)
	}
	if err := durable.WriteJSON(k.file, k.boots, 0o640); err != nil {
		k.log.Warn("by how much the clock is wrong could not be kept", "file", k.file, "err", err)
	}
}

// warnOnce logs once that the clock is certainly wrong and is not corrected.
func (k *corrector) warnOnce(best bootMeasurement, now time.Time) {
	off := time.Duration(best.base-(now.UnixMilli()-k.clock.Since().Milliseconds())) * time.Millisecond
	sure := off.Abs() - best.took/2 - time.Second/2 // the resolution of Date
	if !k.noted && best.took >= maxResponseTime && len(k.last) == keptResponses && sure < minRepeatCorrection {
		k.noted = true
		k.log.Info("the clock of this machine cannot be compared with the receiver's: no answer came in time; sent times are as they are",
			"to", k.shown, "fastest", best.took.Round(time.Second/10))
	}
	if k.noted || sure < minRepeatCorrection || best.took < maxResponseTime && off.Abs() >= minCorrection {
		return
	}
	k.noted = true
	k.log.Warn("the clock of this machine differs from the receiver's; sent times are as they are, set the clock (chrony, ntpd)", "to",
		k.shown,
		"behind", off.Round(time.Second), "give or take", (best.took / 2).Round(time.Second/10))
}

// shift returns the correction of the times of a request that was stamped in a boot, in milliseconds.
func (k *corrector) shift(boot string, stamped bootTime) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	right, ok := k.boots[boot]
	if !ok {
		return 0
	}
	d := time.Duration(right.Base-stamped) * time.Millisecond
	if boot == k.clock.Boot && d.Abs() >= minCorrection && !k.wrong {
		k.wrong = true
		k.log.Warn("the clock of this machine differs from the receiver's; sent times are corrected, but set the clock (chrony, ntpd)",
			"to", k.shown, "behind", d.Round(time.Second))
	}
	if d.Abs() >= minCorrection || k.wrong && d.Abs() >= minRepeatCorrection {
		return d.Milliseconds()
	}
	return 0
}
