// Package format writes figures for people, the same on every page, in every table and
// sentence: three significant digits, binary units for bytes, a space before the unit and
// before %. It is the only place that does; machines get the bare number.
//
// What is not a number is written as it is by strconv. Functions are safe for concurrent use.
package format

import (
	"fmt"
	"math"
	"strconv"

	"reckon/metric"
)

// Bytes writes an amount of memory or data: 512 B, 1000 MiB, 1.5 GiB.
func Bytes(v float64) string {
	return scaled(v, 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
}

// Rate writes bytes each second: 1.5 MiB/s.
func Rate(v float64) string { return Bytes(v) + "/s" }

// Percent writes a share of 1: 0.4 %, 37 %, and < 0.1 % for what is not quite nothing.
func Percent(share float64) string {
	p := share * 100
	switch a := math.Abs(p); {
	case a == 0:
		return "0 %"
	case a < 0.05:
		return "< 0.1 %"
	case a < 9.95:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// Duration writes seconds with the two largest units: 250 ms, 1.5 s, 12 s, 2m 5s, 2h 3m,
// 3d 4h.
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
		return fmt.Sprintf("%.1f s", s)
	case s < 59.5:
		return fmt.Sprintf("%.0f s", s)
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

// Hours writes seconds as a number of hours: 0.25, 12.3, 12,345.
func Hours(seconds float64) string { return Count(seconds / 3600) }

// CoreHours writes core-seconds: 0.25 core-hours, 12,345 core-hours.
func CoreHours(seconds float64) string { return Hours(seconds) + " core-hours" }

// GPUHours writes GPU-seconds: 12.3 GPU-hours.
func GPUHours(seconds float64) string { return Hours(seconds) + " GPU-hours" }

// Number writes two or three significant digits: 0.052, 1.5, 15.2, 150. A whole number is
// written as such: it was asked for or installed, not measured.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a < 0.0095:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case a < 0.95:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Count writes a number with thousands apart: 0.5, 12, 12,345.
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

// Plural writes a count with its noun: 1 core, 2.5 cores.
func Plural(v float64, noun string) string {
	if v == 1 {
		return "1 " + noun
	}
	return Count(v) + " " + noun + "s"
}

// Joules writes energy: 512 J, 1.5 kJ, 3.2 MJ.
func Joules(v float64) string { return scaled(v, 1000, "J", "kJ", "MJ", "GJ", "TJ") }

// WattHours writes joules as operators of machines and tariffs count them: 12 kWh.
func WattHours(joules float64) string {
	return scaled(joules/3600, 1000, "Wh", "kWh", "MWh", "GWh")
}

// Watts writes power: 0.5 W, 120 W, 1.5 kW.
func Watts(v float64) string {
	if v > -999.5 && v < 999.5 {
		return Number(v) + " W"
	}
	return scaled(v, 1000, "W", "kW", "MW", "GW")
}

// Figure writes a figure by its unit.
func Figure(v float64, unit metric.Unit) string {
	switch unit {
	case metric.Bytes:
		return Bytes(v)
	case metric.Seconds:
		return Duration(v)
	case metric.ByteSeconds:
		return Bytes(v/3600) + "-hours"
	case metric.Joules:
		return Joules(v)
	case metric.Watts:
		return Watts(v)
	case metric.Ratio:
		return Percent(v)
	case metric.Cores:
		return Number(v)
	}
	return Count(v)
}

// scaled writes three significant digits with the unit that keeps the number below base;
// rounding up never leaves 1024 of a unit.
func scaled(v, base float64, units ...string) string {
	i := 0
	for math.Abs(v) >= base-0.5 && i < len(units)-1 {
		v /= base
		i++
	}
	if i == 0 {
		return strconv.FormatFloat(v, 'f', 0, 64) + " " + units[0]
	}
	return Number(v) + " " + units[i]
}
