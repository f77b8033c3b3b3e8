package store

import (
	"context"
	"time"
)

// Repeat calls f after first and then at every interval, measured from the start of a call, until ctx ends. It
// pauses after each call for at least rest times its duration. failed is called with an error that differs from
// the previous one.
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
