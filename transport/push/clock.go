package push

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"reckon/internal/durable"
)

// Clock is the clock of a machine as it is corrected by that of the other side. What is measured
// is stamped by the machine's own clock, and each request says by how much that was ahead of the
// time since boot. What the server says in its header Date tells by how much it should have been;
// the difference is added to all times when the request is sent, one for a boot. A machine
// without a battery for its clock so needs none, and what it measured before it reached anybody is
// put right too.
type Clock struct {
	// Boot names this boot of the machine, and Since is the time since it began, which runs on while
	// the machine sleeps.
	Boot  string
	Since func() time.Duration
}

const (
	// wrongFrom is from how much on a clock is corrected. Date tells whole seconds.
	wrongFrom = 10 * time.Second
	// wrongOn is from how much on, once it was found wrong.
	wrongOn = 2 * time.Second
	// newBase is by how much what Date tells must change to be taken for another time.
	newBase = 5 * time.Second
	// keptBoots is how many boots are remembered.
	keptBoots = 16
)

// base is a moment as the milliseconds from the begin of the boot, by a clock, to the Unix epoch.
type base = int64

// corrector corrects the requests of one target.
type corrector struct {
	clock Clock
	file  string
	log   *slog.Logger
	shown string

	mu    sync.Mutex
	wrong bool
	boots map[string]knownBoot
}

// knownBoot is what is known of a boot.
type knownBoot struct {
	Base base  `json:"base_ms"` // right
	Seen int64 `json:"seen"`    // order in which they were met
}

// newCorrector goes on from what was learnt of boots; nil for a machine that is not corrected.
func newCorrector(c Clock, file, shown string, log *slog.Logger) *corrector {
	if c.Boot == "" || c.Since == nil {
		return nil
	}
	k := &corrector{clock: c, file: file, log: log, shown: shown, boots: map[string]knownBoot{}}
	raw, err := os.ReadFile(file)
	if err == nil {
		if raw, err = durable.Unseal(raw); err == nil {
			err = json.Unmarshal(raw, &k.boots)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("by how much the clock was wrong at boots before is not known", "file", file, "err", err)
	}
	return k
}

// stamp is what a request says of the clock that stamped it.
func (k *corrector) stamp(at time.Time) (boot string, b base) {
	return k.clock.Boot, at.UnixMilli() - k.clock.Since().Milliseconds()
}

// known reports whether the time of this boot is.
func (k *corrector) known() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.boots[k.clock.Boot]
	return ok
}

// learn takes what the other side says of the time, in the answer to a request that took from
// one time since boot to another.
func (k *corrector) learn(h http.Header, from, to time.Duration) {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return // it keeps no time
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
		oldest := slices.MinFunc(slices.Collect(maps.Keys(k.boots)), func(a, b string) int { return int(k.boots[a].Seen - k.boots[b].Seen) })
		delete(k.boots, oldest)
	}
	raw, err := json.Marshal(k.boots)
	if err == nil {
		err = durable.Replace(k.file, durable.Seal(raw), 0o640)
	}
	if err != nil {
		k.log.Warn("by how much the clock is wrong could not be kept", "file", k.file, "err", err)
	}
}

// shift is what is added to the times of a request that was stamped at a boot, in milliseconds.
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
		k.log.Warn("the clock of this machine is wrong by the other side's; what is sent is corrected, set it all the same (chrony, ntpd)", "to", k.shown, "behind", d.Round(time.Second))
	}
	if d.Abs() >= wrongFrom || k.wrong && d.Abs() >= wrongOn {
		return d.Milliseconds()
	}
	return 0
}
