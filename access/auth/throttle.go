package auth

import (
	"sync"
	"time"
)

// throttle slows down who guesses passwords: after free failures on one key each further
// one doubles the wait, up to longestWait. Time heals: a key that was quiet for an hour
// is forgotten.
type throttle struct {
	mu   sync.Mutex
	keys map[string]*attempts
}

type attempts struct {
	failures int
	last     time.Time
}

const (
	free        = 5
	longestWait = 5 * time.Minute
	healed      = time.Hour
	mostKeys    = 10_000
)

// wait is how long attempts on these keys are refused.
func (t *throttle) wait(now time.Time, keys ...string) (longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		a := t.keys[k]
		if a == nil || a.failures < free {
			continue
		}
		pause := longestWait
		if n := a.failures - free; n < 8 {
			pause = min(pause, time.Second<<n)
		}
		longest = max(longest, a.last.Add(pause).Sub(now))
	}
	return longest
}

func (t *throttle) failed(now time.Time, keys ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys = map[string]*attempts{}
	}
	for k, a := range t.keys {
		if now.Sub(a.last) > healed || len(t.keys) > mostKeys {
			delete(t.keys, k)
		}
	}
	for _, k := range keys {
		if t.keys[k] == nil {
			t.keys[k] = &attempts{}
		}
		t.keys[k].failures++
		t.keys[k].last = now
	}
}

func (t *throttle) succeeded(keys ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		delete(t.keys, k)
	}
}
