package store

import (
	"context"
	"time"
)

// Repeat calls f after the duration first and then at the interval every, measured from the start of a call, until ctx
// ends. After each call it pauses for at least rest times the duration of the call. failed is called with each error
// that differs from the previous one.
func Repeat(ctx context.Context, first, every time.Duration, pauseFactor int, call func(context.Context) error, failed func(error)) error {
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
		err := call(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			logged = ""
		case err.Error() != logged:
			logged = err.Error()
			failed(err)
		}
		took := time.Since(begin)
		timer.Reset(max(every-took, time.Duration(pauseFactor)*took))
	}
}
