package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeat: the first time after a minute, then every interval, or twenty times as long as f took; an error is reported once.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), 26*time.Minute)
		defer stop()
		var at, failed []string
		err := Repeat(ctx, time.Minute, 5*time.Minute, 20, func(context.Context) error {
			at = append(at, fmt.Sprint(time.Since(begin)))
			switch len(at) {
			case 1:
				<-time.After(30 * time.Second)
			case 2, 3:
				return errors.New("no")
			}
			return nil
		}, func(err error) { failed = append(failed, err.Error()) })
		if got := fmt.Sprint(at, failed, err); got != "[1m0s 11m30s 16m30s 21m30s] [no] <nil>" {
			t.Error(got)
		}
	})
}
