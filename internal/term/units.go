package term

import (
	"math"
	"time"

	"reckon/figure/format"
)

func isUnknown(v *float64) bool { return v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) }

// formatOrUnknown formats a figure, or returns Unknown.
func formatOrUnknown(v *float64, write func(float64) string) string {
	if isUnknown(v) {
		return Unknown
	}
	return write(*v)
}

// Bytes prints an amount of memory or data: 512 B, 1.5 GiB.
func Bytes(v *float64) string { return formatOrUnknown(v, format.Bytes) }

// Rate prints bytes per second: 1.5 MiB/s.
func Rate(v *float64) string { return formatOrUnknown(v, format.Rate) }

// Cores prints a number of cores: 0.05, 3.2, 128.
func Cores(v *float64) string { return formatOrUnknown(v, format.Number) }

// Number prints a count with thousands separators: 12,345.
func Number(v *float64) string { return formatOrUnknown(v, format.Count) }

// Percent prints a share of 1: 0.4 %, 37 %.
func Percent(v *float64) string { return formatOrUnknown(v, format.Percent) }

// Seconds prints a duration with its two largest units: 12 s, 2m 5s, 2h 3m, 3d 4h.
func Seconds(v *float64) string { return formatOrUnknown(v, format.Duration) }

// CoreHours prints core-seconds: 1,234 core-hours.
func CoreHours(v *float64) string { return formatOrUnknown(v, format.CoreHours) }

// Hours prints seconds as a number of hours.
func Hours(v *float64) string { return formatOrUnknown(v, format.Hours) }

// Energy prints joules as 0.14 Wh, 83.1 Wh or 12 kWh.
func Energy(v *float64) string { return formatOrUnknown(v, format.Energy) }

// Watts prints power: 0.5 W, 120 W, 1.5 kW.
func Watts(v *float64) string { return formatOrUnknown(v, format.Watts) }

// Ago prints the time from t to now.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	s := now.Sub(t).Seconds()
	if s > -1 && s < 1 {
		return "now"
	}
	text := Seconds(&s)
	if s < 0 {
		return "in " + text[1:]
	}
	return text + " ago"
}

// Clock formats t in the time zone of now. It is 15:04:05 on the day of now, Jan 02 15:04 in the year of now, and else
// 2006-01-02.
func Clock(t, now time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	t = t.In(now.Location())
	switch {
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
		return t.Format("15:04:05")
	case t.Year() == now.Year():
		return t.Format("Jan 02 15:04")
	}
	return t.Format(time.DateOnly)
}
