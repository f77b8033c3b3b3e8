package store

import (
	"context"
	"time"
)

// Repeat calls f after the time first and then every interval, counted from the start of a call, until the context ends. After a call it
// rests for at least rest times the duration of that call. failed gets an error that differs from the one before.
func Repeat(ctx context.Context, first, every time.Duration, rest int, f func(context.Context) error, failed func(error)) error {
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
		case ctx.Err() != nil:
		case err == nil:
			logged = ""
		case err.Error() != logged:
			logged = err.Error()
			failed(err)
		}
		took := time.Since(begin)
		timer.Reset(max(every-took, time.Duration(rest)*took))
	}
}
