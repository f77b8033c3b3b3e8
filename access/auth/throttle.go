package auth

import (
	"net/netip"
	"sync"
	"time"
)

// throttle slows down password guessing. An attempt is counted before it is checked, so that
// concurrent attempts gain nothing over sequential ones. It counts by
//
//   - name and address together: after free failures each further one doubles the
//     wait, up to longestWait;
//   - name alone, and address alone: after freeShared failures each waits for
//     sharedWait. A name that has signed in from an address is not delayed there by failures
//     elsewhere, and no such wait is longer than sharedWait, so that no user can be locked
//     out by another.
//
// Counters that have been idle for an hour are deleted.
type throttle struct {
	mu   sync.Mutex
	keys map[string]*attempts
	good map[string]time.Time // last success of a name and address together
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

func (a *attempts) waitTime(now time.Time, free int, longest time.Duration) time.Duration {
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

// attemptKeys returns the keys of an attempt: the name with the address, the name, and the address.
func attemptKeys(name, from string) (both, byName, byFrom string) {
	from = senderBlock(from)
	return "both " + name + "\x00" + from, "name " + name, "from " + from
}

// senderBlock returns the address block of one sender, which is the whole network of a customer for IPv6.
func senderBlock(from string) string {
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

// reserveAttempt counts a sign-in attempt as failed before the password is checked. It returns how long the attempt has to
// wait; an attempt that has to wait is not counted.
func (t *throttle) reserveAttempt(now time.Time, name, from string) time.Duration {
	both, byName, byFrom := attemptKeys(name, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := t.keys[both].waitTime(now, free, longestWait)
	if last, ok := t.good[both]; !ok || now.Sub(last) > trusted {
		wait = max(wait, t.keys[byName].waitTime(now, freeShared, sharedWait), t.keys[byFrom].waitTime(now, freeShared, sharedWait))
	}
	if wait > 0 {
		return wait
	}
	if t.keys == nil {
		t.keys = map[string]*attempts{}
	}
	t.deleteIdle(now)
	for _, k := range []string{both, byName, byFrom} {
		if t.keys[k] == nil {
			t.keys[k] = &attempts{}
		}
		t.keys[k].failures++
		t.keys[k].last = now
	}
	return 0
}

// deleteIdle deletes idle counters. If there are still too many, it deletes arbitrary ones.
func (t *throttle) deleteIdle(now time.Time) {
	if len(t.keys) < mostKeys/2 {
		return
	}
	for k, a := range t.keys {
		if now.Sub(a.last) > healed || len(t.keys) > mostKeys {
			delete(t.keys, k)
		}
	}
}

// cancelReservation undoes a reservation for an attempt that was not made.
func (t *throttle) cancelReservation(name, from string) {
	both, byName, byFrom := attemptKeys(name, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range []string{both, byName, byFrom} {
		if a := t.keys[k]; a != nil {
			a.failures = max(0, a.failures-1)
		}
	}
}

// recordSuccess clears the failures of a name at an address, including the reserved attempt.
func (t *throttle) recordSuccess(now time.Time, name, from string) {
	t.cancelReservation(name, from)
	both, _, _ := attemptKeys(name, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.keys, both)
	if t.good == nil || len(t.good) > mostKeys {
		t.good = map[string]time.Time{}
	}
	t.good[both] = now
}
