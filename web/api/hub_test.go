package api_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"reckon/web/api"
	"reckon/web/client"
)

func TestHubSlowReaderGetsNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := new(api.Hub)
		ctx, cancel := context.WithCancel(t.Context())
		slow := hub.Subscribe(ctx)
		for i := range 100 {
			hub.Publish(client.Live{Cores: float64(i)})
		}
		if got := <-slow; got.Cores != 99 {
			t.Errorf("the slow reader got tick %v, want the newest, 99", got.Cores)
		}
		other, leave := context.WithCancel(t.Context())
		if late := <-hub.Subscribe(other); late.Cores != 99 {
			t.Errorf("a new reader got tick %v, want 99", late.Cores)
		}
		cancel()
		synctest.Wait()
		if _, open := <-slow; open {
			t.Error("the channel is open after its context ended")
		}
		if n := hub.Subscribers(); n != 1 {
			t.Errorf("%d subscribers are left, want the new one", n)
		}
		leave()
		synctest.Wait()
		again := hub.Subscribe(t.Context())
		select {
		case old := <-again:
			t.Errorf("the first reader after a while got the tick of then, %v", old.Cores)
		default:
		}
		hub.Publish(client.Live{Cores: 100})
		if got := <-again; got.Cores != 100 {
			t.Errorf("it got tick %v, want 100", got.Cores)
		}
	})
}

func TestHubClose(t *testing.T) {
	hub := new(api.Hub)
	ch := hub.Subscribe(context.Background())
	hub.Close()
	hub.Close()
	hub.Publish(client.Live{})
	if _, open := <-ch; open {
		t.Error("the channel is open after Close")
	}
	if _, open := <-hub.Subscribe(context.Background()); open {
		t.Error("a closed hub takes readers")
	}
}

// TestHubConcurrency is for the race detector.
func TestHubConcurrency(t *testing.T) {
	hub := new(api.Hub)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				ch := hub.Subscribe(ctx)
				hub.Publish(client.Live{})
				<-ch
				cancel()
			}
		})
	}
	wg.Wait()
	hub.Close()
}

func BenchmarkHubPublish(b *testing.B) {
	hub := new(api.Hub)
	for range 10 {
		hub.Subscribe(b.Context())
	}
	b.ReportAllocs()
	for b.Loop() {
		hub.Publish(client.Live{})
	}
}
