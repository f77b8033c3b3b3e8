package server

import (
	"context"
	"time"
)

// repeat calls f after the time first and then every interval until the context ends, and less often where f takes
// long: at most a twentieth of one core is spent. failed gets an error that is not the one before.
func repeat(ctx context.Context, first, every time.Duration, f func(context.Context) error, failed func(error)) error {
	timer := time.NewTimer(first)
	defer timer.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		begin := time.Now()
		err := f(ctx)
		switch {
		case err == nil:
			logged = ""
		case ctx.Err() == nil && err.Error() != logged:
			logged = err.Error()
			failed(err)
		}
		timer.Reset(max(every, 20*time.Since(begin)))
	}
}
