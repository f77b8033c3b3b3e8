// Package format formats figures for people in the same way on every page, in every table and in every sentence: at
// most three significant digits, no trailing zeros, binary units for bytes, a space before the unit and before %. No
// other package formats figures; machines get the bare number.
//
// NaN is formatted as by strconv. Functions are safe for concurrent use.
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"reckon/metric"
)

// Bytes formats an amount of memory or data: 512 B, 1000 MiB, 1.5 GiB.
func Bytes(v float64) string {
	return formatScaled(v, 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
}

// Rate formats bytes per second: 1.5 MiB/s.
func Rate(v float64) string { return Bytes(v) + "/s" }

// BitRate formats bytes per second as speeds of networks are written, in powers of 1000 bits: 9.4 Gb/s.
func BitRate(v float64) string { return formatScaled(8*v, 1000, "b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s") }

// Percent formats a fraction of 1: 0.4 %, 37 %, and < 0.1 % for a tiny nonzero fraction.
func Percent(share float64) string {
	p := share * 100
	switch a := math.Abs(p); {
	case a == 0:
		return "0 %"
	case a < 0.05:
		return "< 0.1 %"
	case a < 9.95:
		return formatDecimals(p, 1) + " %"
	}
	return formatDecimals(p, 0) + " %"
}

// Duration formats seconds for a table cell with the two largest units: 250 ms, 1.5 s, 12 s, 2m 5s, 2h 3m, 3d 4h.
func Duration(s float64) string {
	switch {
	case s < 0:
		return "-" + Duration(-s)
	case s == 0:
		return "0 s"
	case s < 0.0005:
		return fmt.Sprintf("%.0f µs", s*1e6)
	case s < 0.9995:
		return fmt.Sprintf("%.0f ms", s*1e3)
	case s < 9.95:
		return formatDecimals(s, 1) + " s"
	case s < 59.5:
		return formatDecimals(s, 0) + " s"
	}
	t := int64(math.Round(s))
	if t >= 3600 {
		t = (t + 30) / 60 * 60 // seconds are not shown: round to the minute
	}
	if t >= 86400 {
		t = (t + 1800) / 3600 * 3600
	}
	d, h, m, sec := t/86400, t/3600%24, t/60%60, t%60
	switch {
	case d >= 100:
		return fmt.Sprintf("%dd", d)
	case d > 0:
		return fmt.Sprintf("%dd %dh", d, h)
	case h > 0:
		return fmt.Sprintf("%dh %dm", h, m)
	}
	return fmt.Sprintf("%dm %ds", m, sec)
}

// Time formats seconds for a sentence: 250 ms, 1.5 s, 12 s, 3 min, 2 h 5 min, 3.2 days.
func Time(s float64) string {
	if math.Abs(s) < 59.5 {
		return Duration(s)
	}
	if s < 0 {
		return "-" + Time(-s)
	}
	switch m := int64(math.Round(s / 60)); {
	case m < 60:
		return fmt.Sprintf("%d min", m)
	case m < 48*60 && m%60 == 0:
		return fmt.Sprintf("%d h", m/60)
	case m < 48*60:
		return fmt.Sprintf("%d h %d min", m/60, m%60)
	}
	return Number(math.Round(s/8640)/10) + " days"
}

// Hours formats seconds as a number of hours: 0.25, 12.3, 12,345.
func Hours(seconds float64) string { return Count(seconds / 3600) }

// CoreHours formats core-seconds: 0.25 core-hours, 12,345 core-hours.
func CoreHours(seconds float64) string { return Hours(seconds) + " core-hours" }

// GPUHours formats GPU-seconds: 12.3 GPU-hours.
func GPUHours(seconds float64) string { return Hours(seconds) + " GPU-hours" }

// Number formats up to three significant digits: 0.05, 1.5, 15.2, 150. A tiny nonzero value becomes < 0.001.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v > 0 && v < 0.0005:
		return "< 0.001"
	case a < 0.0095:
		return formatDecimals(v, 3)
	case a < 0.95:
		return formatDecimals(v, 2)
	case a < 99.95:
		return formatDecimals(v, 1)
	}
	return formatDecimals(v, 0)
}

// formatDecimals formats v with at most n decimals.
func formatDecimals(v float64, n int) string {
	s := strconv.FormatFloat(v, 'f', n, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// Count formats a number with a thousands separator: 0.5, 12, 12,345.
func Count(v float64) string {
	if math.Abs(v) < 999.5 {
		return Number(v)
	}
	s := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 {
		s = "-" + s
	}
	return s
}

// AtMost formats a number like [Count] but rounded up, for an upper bound.
func AtMost(v float64) string {
	for up := v; ; up += math.Abs(v) / 1e4 {
		text := Count(up)
		if shown, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64); err != nil || shown >= v {
			return text
		}
	}
}

// Plural formats a count with its noun: 1 core, 2.5 cores.
func Plural(v float64, noun string) string {
	if v == 1 {
		return "1 " + noun
	}
	return Count(v) + " " + noun + "s"
}

// Energy formats joules in watt-hours, the unit of meters and tariffs: 0.14 Wh, 83.1 Wh, 12 kWh.
func Energy(joules float64) string {
	wh := joules / 3600
	if math.Abs(wh) < 999.5 {
		return Number(wh) + " Wh"
	}
	return formatScaled(wh, 1000, "Wh", "kWh", "MWh", "GWh", "TWh")
}

// Watts formats power: 0.5 W, 120 W, 1.5 kW.
func Watts(v float64) string {
	if v > -999.5 && v < 999.5 {
		return Number(v) + " W"
	}
	return formatScaled(v, 1000, "W", "kW", "MW", "GW")
}

// Figure formats a figure according to its unit.
func Figure(v float64, unit metric.Unit) string {
	switch unit {
	case metric.Bytes:
		return Bytes(v)
	case metric.Seconds:
		return Duration(v)
	case metric.ByteSeconds:
		return Bytes(v/3600) + "-hours"
	case metric.Joules:
		return Energy(v)
	case metric.Watts:
		return Watts(v)
	case metric.Ratio:
		return Percent(v)
	case metric.Cores:
		return Number(v)
	}
	return Count(v)
}

// formatScaled formats v with three significant digits and the unit that keeps the number below base. A number that rounds up
// to base, such as 1024 KiB, gets the next unit.
func formatScaled(v, base float64, units ...string) string {
	i := 0
	for math.Abs(v) >= base-0.5 && i < len(units)-1 {
		v /= base
		i++
	}
	if i == 0 {
		return formatDecimals(v, 0) + " " + units[0]
	}
	return Number(v) + " " + units[i]
}
