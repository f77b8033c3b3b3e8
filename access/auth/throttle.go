package auth

import (
	"net/netip"
	"sync"
	"time"
)

// throttle slows down who guesses passwords. A try is counted before it is checked, so that
// many at once are no more than one after the other. What is counted is
//
//   - the name together with the address: after free failures each further one doubles the
//     wait, up to longestWait;
//   - the name alone, and the address alone: after freeShared failures each waits for
//     sharedWait. Who has signed in from an address with a name is not held back by what
//     others do with either, and nobody for longer than sharedWait: nobody can be locked out
//     by somebody else.
//
// Time heals: what was quiet for an hour is forgotten.
type throttle struct {
	mu   sync.Mutex
	keys map[string]*attempts
	good map[string]time.Time // name and address that were right together, and when last
}

type attempts struct {
	failures int
	last     time.Time
}

const (
	free        = 5
	longestWait = 5 * time.Minute
	freeShared  = 50
	sharedWait  = 5 * time.Second
	healed      = time.Hour
	trusted     = 30 * 24 * time.Hour
	mostKeys    = 10_000
)

func (a *attempts) wait(now time.Time, free int, longest time.Duration) time.Duration {
	if a == nil || a.failures < free {
		return 0
	}
	pause := longest
	if n := a.failures - free; n < 8 {
		pause = min(pause, time.Second<<n)
	}
	if now.Sub(a.last) > healed {
		return 0
	}
	return a.last.Add(pause).Sub(now)
}

// keysOf are the name with the address, the name, and the address.
func keysOf(name, from string) (both, byName, byFrom string) {
	from = sender(from)
	return "both " + name + "\x00" + from, "name " + name, "from " + from
}

// sender is an address as one sender has it: of IPv6 a whole network is given to one.
func sender(from string) string {
	ip, err := netip.ParseAddr(from)
	if err != nil {
		return from
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return from
	}
	return p.String()
}

// reserve counts a try before it is made, as if it had failed. Where it has to wait it is not
// counted, and the wait is longer than 0.
func (t *throttle) reserve(now time.Time, name, from string) time.Duration {
	both, byName, byFrom := keysOf(name, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := t.keys[both].wait(now, free, longestWait)
	if last, ok := t.good[both]; !ok || now.Sub(last) > trusted {
		wait = max(wait, t.keys[byName].wait(now, freeShared, sharedWait), t.keys[byFrom].wait(now, freeShared, sharedWait))
	}
	if wait > 0 {
		return wait
	}
	if t.keys == nil {
		t.keys = map[string]*attempts{}
	}
	t.trim(now)
	for _, k := range []string{both, byName, byFrom} {
		if t.keys[k] == nil {
			t.keys[k] = &attempts{}
		}
		t.keys[k].failures++
		t.keys[k].last = now
	}
	return 0
}

// trim forgets what has healed and, where that is not enough, anything.
func (t *throttle) trim(now time.Time) {
	if len(t.keys) < mostKeys/2 {
		return
	}
	for k, a := range t.keys {
		if now.Sub(a.last) > healed || len(t.keys) > mostKeys {
			delete(t.keys, k)
		}
	}
}

// free takes a reserved try back that was not made.
func (t *throttle) free(name, from string) {
	both, byName, byFrom := keysOf(name, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range []string{both, byName, byFrom} {
		if a := t.keys[k]; a != nil {
			a.failures = max(0, a.failures-1)
		}
	}
}

// succeeded forgets the failures of a name at an address, its own try included.
func (t *throttle) succeeded(now time.Time, name, from string) {
	t.free(name, from)
	both, _, _ := keysOf(name, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.keys, both)
	if t.good == nil || len(t.good) > mostKeys {
		t.good = map[string]time.Time{}
	}
	t.good[both] = now
}
