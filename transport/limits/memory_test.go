package limits

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// Large requests wait for each other, small ones for none of them, and nobody waits for ever.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(16 << 20)
		reserve := func(n int64) (func(), error) { return m.Reserve(t.Context(), n) }
		first, err := reserve(8 << 20)
		if err != nil {
			t.Fatal(err)
		}
		second, err := reserve(4 << 20) // three quarters together
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := reserve(smallRequest + 1); !errors.Is(err, ErrMemory) || time.Since(began) != memoryWait {
			t.Errorf("a large request more: %v after %s", err, time.Since(began))
		}
		began = time.Now()
		for range 4 {
			free, err := reserve(smallRequest)
			if err != nil {
				t.Fatal(err)
			}
			defer free()
		}
		if time.Since(began) != 0 {
			t.Errorf("small ones waited for %s", time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Reserve(ctx, 2<<20); !errors.Is(err, context.Canceled) {
			t.Errorf("a sender that went away: %v", err)
		}
		time.AfterFunc(time.Second, func() { first(); first(); second() })
		began = time.Now()
		all, err := reserve(1 << 30) // more than there is: as much as large ones may take
		if err != nil || time.Since(began) != time.Second {
			t.Errorf("a request larger than the budget: %v after %s", err, time.Since(began))
		}
		all()
	})
}

func TestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(0)
		free, err := m.ReserveObjects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.ReserveObjects(t.Context()); !errors.Is(err, ErrMemory) {
			t.Errorf("the second at a time: %v", err)
		}
		free()
		if free, err = m.ReserveObjects(t.Context()); err != nil {
			t.Error(err)
		}
		free()
	})
}

// Little garbage may gather while something large is done, and as much as before when the last of it is over.
func TestLarge(t *testing.T) {
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	defer debug.SetGCPercent(percent())
	m := NewMemory(0)
	for usual, meanwhile := range map[int]int{100: minGarbagePercent, minGarbagePercent + 1: minGarbagePercent, minGarbagePercent: minGarbagePercent, 10: 10, -1: -1} {
		debug.SetGCPercent(usual)
		for range 2 {
			one, other := m.collectOften(), m.Large(math.MaxInt64/largeShare)
			if p := percent(); p != meanwhile {
				t.Errorf("GOGC=%d: %d while two are done, want %d", usual, p, meanwhile)
			}
			one()
			if p := percent(); p != meanwhile {
				t.Errorf("GOGC=%d: %d while one is done, want %d", usual, p, meanwhile)
			}
			other()
			if p := percent(); p != usual {
				t.Errorf("GOGC=%d: %d afterwards", usual, p)
			}
		}
	}
}

// A query that is small beside the heap makes nobody collect it: the list of a site of 1,000 nodes did so with each view.
func TestSmallBesideHeap(t *testing.T) {
	m, heap := NewMemory(0), int64(heapBytes())
	if done := m.Large(heap / largeShare / 2); done != nil {
		t.Error("half of the share is large")
	}
	done := m.Large(4 * heap / largeShare)
	if done == nil {
		t.Fatal("four times the share is not large")
	}
	done()
}

// The default is a part of the memory within bounds.
func TestDefaultMemory(t *testing.T) {
	if n := NewMemory(0).total; n < minBudget || n > maxBudget {
		t.Errorf("%d bytes", n)
	}
	if ProgramMemory() <= 0 {
		t.Error("the memory of this machine is not known")
	}
}
