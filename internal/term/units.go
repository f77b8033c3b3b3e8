package term

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

func unknown(v *float64) bool { return v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) }

// Bytes prints an amount of memory or data: 512 B, 1.5 GiB.
func Bytes(v *float64) string {
	if unknown(v) {
		return Unknown
	}
	return scaled(*v, 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
}

// Rate prints bytes each second: 1.5 MiB/s.
func Rate(v *float64) string {
	if unknown(v) {
		return Unknown
	}
	return Bytes(v) + "/s"
}

// scaled prints three significant digits with the unit that keeps the number below
// base; rounding up never leaves 1024 of a unit.
func scaled(v, base float64, units ...string) string {
	i := 0
	for math.Abs(v) >= base-0.5 && i < len(units)-1 {
		v /= base
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%.0f %s", v, units[0])
	}
	return digits(v) + " " + units[i]
}

// digits prints two or three significant digits: 0.052, 1.5, 15.2, 150. A whole
// number is printed as such: it was asked for or installed, not measured.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a < 0.0095:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case a < 0.95:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

// Cores prints a number of cores: 0.05, 3.2, 128.
func Cores(v *float64) string {
	if unknown(v) {
		return Unknown
	}
	return digits(*v)
}

// Number prints a count with thousands apart: 12,345.
func Number(v *float64) string {
	if unknown(v) {
		return Unknown
	}
	s := strconv.FormatFloat(math.Abs(*v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if *v < 0 {
		s = "-" + s
	}
	return s
}

// Percent prints a share of 1: 0.4 %, 37 %.
func Percent(v *float64) string {
	if unknown(v) {
		return Unknown
	}
	p := *v * 100
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

// Seconds prints a duration with its two largest units: 0.25 s, 12 s, 2m 5s, 2h 3m,
// 3d 4h.
func Seconds(v *float64) string {
	if unknown(v) {
		return Unknown
	}
	s := *v
	if s < 0 {
		pos := -s
		return "-" + Seconds(&pos)
	}
	switch {
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
	default:
		return fmt.Sprintf("%dm %ds", m, sec)
	}
}

// Ago prints how long ago t was, seen from now.
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

// Clock prints a moment in the zone of now, without what both share: 15:04:05 today,
// else Jan 02 15:04, else 2006-01-02.
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

// Joules prints energy: 512 J, 1.5 kJ, 3.2 MJ.
func Joules(v *float64) string {
	if unknown(v) {
		return Unknown
	}
	return scaled(*v, 1000, "J", "kJ", "MJ", "GJ", "TJ")
}

// Watts prints power: 0.5 W, 120 W, 1.5 kW.
func Watts(v *float64) string {
	if unknown(v) {
		return Unknown
	}
	if *v > -999.5 && *v < 999.5 {
		return digits(*v) + " W"
	}
	return scaled(*v, 1000, "W", "kW", "MW", "GW")
}
