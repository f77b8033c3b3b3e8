package phrase

import (
	"time"

	"reckon/figure/format"
)

// The functions below return a figure as a value of a sentence: the number and its unit beside how it is shown.

// Bytes returns an amount of memory or data, bytes.
func Bytes(v float64) Text { return Number(v, "bytes", format.Bytes(v)) }

// BitRate returns bytes per second, shown as bits per second.
func BitRate(v float64) Text { return Number(v, "bytes/s", format.BitRate(v)) }

// Percent returns a ratio.
func Percent(v float64) Text { return Number(v, "ratio", format.Percent(v)) }

// Time returns a duration, seconds.
func Time(v float64) Text { return Number(v, "seconds", format.Time(v)) }

// Count returns a number of things.
func Count(v float64) Text { return Number(v, "count", format.Count(v)) }

// AtMost returns a number of things rounded up, for an upper bound.
func AtMost(v float64) Text { return Number(v, "count", format.AtMost(v)) }

// Moment returns a time in UTC, as its layout shows it; its number is Unix seconds.
func Moment(t time.Time, layout string) Text {
	return Number(float64(t.Unix()), "unix seconds", t.UTC().Format(layout))
}
