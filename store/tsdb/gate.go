package tsdb

import (
	"sync"
	"time"

	"reckon/store"
)

// gate counts the users of the database, so that the database is closed or replaced only while nobody uses it. Unlike a
// sync.RWMutex, it allows a goroutine to enter a second time while a close is pending.
type gate struct {
	mu     sync.Mutex
	change sync.Cond
	users  int
	shut   bool // a repair is under way: entering waits
	closed bool // entering fails
}

func (g *gate) init() { g.change.L = &g.mu }

func (g *gate) acquire() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut && !g.closed {
		g.change.Wait()
	}
	if g.closed {
		return store.ErrClosed
	}
	g.users++
	return nil
}

func (g *gate) release() {
	g.mu.Lock()
	g.users--
	if g.users == 0 {
		g.change.Broadcast()
	}
	g.mu.Unlock()
}

// tryShut blocks new users and returns true if there are no users now.
func (g *gate) tryShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users > 0 || g.shut || g.closed {
		return false
	}
	g.shut = true
	return true
}

func (g *gate) open() {
	g.mu.Lock()
	g.shut = false
	g.change.Broadcast()
	g.mu.Unlock()
}

// close rejects new users and waits up to maxWait for current ones. first is false if the gate was closed before.
// usersLeft is the number of users that did not leave.
func (g *gate) close(maxWait time.Duration) (first bool, usersLeft int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false, 0
	}
	g.closed = true
	g.change.Broadcast()
	over := false
	defer time.AfterFunc(maxWait, func() {
		g.mu.Lock()
		over = true
		g.change.Broadcast()
		g.mu.Unlock()
	}).Stop()
	for (g.users > 0 || g.shut) && !over {
		g.change.Wait()
	}
	return true, g.users
}

// isClosing reports whether the gate is being closed or is closed.
func (g *gate) isClosing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}
