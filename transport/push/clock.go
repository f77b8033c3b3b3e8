package push

import (
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

// Clock is the clock of a machine, corrected by that of the receiver. Samples are stamped by the
// machine's own clock, and each request carries the offset of that clock from the time since boot.
// The Date header of a response gives the correct offset; the difference is added to all times
// when the request is sent, the same for a whole boot. A machine without a battery-backed clock
// thus needs none, and samples from before the first connection are corrected too.
type Clock struct {
	// Boot is the id of this boot of the machine, and Since the time since it began, which includes
	// sleep.
	Boot  string
	Since func() time.Duration
}

const (
	// wrongFrom is the error from which on a clock is corrected. Date has a resolution of one second.
	wrongFrom = 10 * time.Second
	// wrongOn is the error from which on a clock is corrected that was found wrong before.
	wrongOn = 2 * time.Second
	// newBase is the change of the time by Date from which on it counts as another time.
	newBase = 5 * time.Second
	// keptBoots is the number of boots remembered.
	keptBoots = 16
)

// base is the beginning of a boot by some clock, in milliseconds since the Unix epoch.
type base = int64

// corrector corrects the requests to one target.
type corrector struct {
	clock Clock
	file  string
	log   *slog.Logger
	shown string

	mu    sync.Mutex
	wrong bool
	boots map[string]knownBoot
}

// knownBoot is the state of a boot.
type knownBoot struct {
	Base base  `json:"base_ms"` // correct
	Seen int64 `json:"seen"`    // order in which the boots were met
}

// newCorrector restores the state of boots from file; nil for a machine that is not corrected.
func newCorrector(c Clock, file, shown string, log *slog.Logger) *corrector {
	if c.Boot == "" || c.Since == nil {
		return nil
	}
	k := &corrector{clock: c, file: file, log: log, shown: shown, boots: map[string]knownBoot{}}
	if err := durable.ReadJSON(file, &k.boots); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the clock errors of earlier boots are unknown", "file", file, "err", err)
	}
	return k
}

// stamp returns the boot of a request and its beginning by the clock that stamped it.
func (k *corrector) stamp(at time.Time) (boot string, b base) {
	return k.clock.Boot, at.UnixMilli() - k.clock.Since().Milliseconds()
}

// known reports whether the correct time of this boot is known.
func (k *corrector) known() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.boots[k.clock.Boot]
	return ok
}

// learn takes the Date of a response to a request that was sent and answered at the given
// times since boot.
func (k *corrector) learn(h http.Header, from, to time.Duration) {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return // no Date
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	right := at.UnixMilli() + 500 - (from + (to-from)/2).Milliseconds()
	old, ok := k.boots[k.clock.Boot]
	if ok && (time.Duration(right-old.Base)*time.Millisecond).Abs() < newBase {
		return
	}
	newest := int64(0)
	for _, b := range k.boots {
		newest = max(newest, b.Seen)
	}
	k.boots[k.clock.Boot] = knownBoot{Base: right, Seen: newest + 1}
	if len(k.boots) > keptBoots {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(k.boots)),
			func(a, b string) int { return int(k.boots[a].Seen - k.boots[b].Seen) })
		delete(k.boots, oldest)
	}
	if err := durable.WriteJSON(k.file, k.boots, 0o640); err != nil {
		k.log.Warn("by how much the clock is wrong could not be kept", "file", k.file, "err", err)
	}
}

// shift returns what to add to the times of a request that was stamped at a boot, in milliseconds.
func (k *corrector) shift(boot string, stamped base) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	right, ok := k.boots[boot]
	if !ok {
		return 0
	}
	d := time.Duration(right.Base-stamped) * time.Millisecond
	if boot == k.clock.Boot && d.Abs() >= wrongFrom && !k.wrong {
		k.wrong = true
		k.log.Warn("the clock of this machine differs from the receiver's; sent times are corrected, but set the clock (chrony, ntpd)",
			"to", k.shown, "behind", d.Round(time.Second))
	}
	if d.Abs() >= wrongFrom || k.wrong && d.Abs() >= wrongOn {
		return d.Milliseconds()
	}
	return 0
}
