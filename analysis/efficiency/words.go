package efficiency

import (
	"fmt"
	"math"
	"strconv"
)

// known is the figure when there is one that can be reckoned with.
func known(v *float64) (float64, bool) {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0 {
		return 0, false
	}
	return *v, true
}

func positive(v *float64) bool {
	x, ok := known(v)
	return ok && x > 0
}

func plural(n float64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// count writes few with a decimal and many without.
func count(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	if v < 0.1 {
		return strconv.FormatFloat(v, 'g', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

func percent(share float64) string {
	if share > 0 && share < 0.01 {
		return "below 1%"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + "%"
}

func size(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for ; bytes >= 1023.5 && i < len(units)-1; i++ {
		bytes /= 1024
	}
	return strconv.FormatFloat(bytes, 'g', max(3, len(strconv.FormatFloat(math.Trunc(bytes), 'f', 0, 64))), 64) + " " + units[i]
}

func duration(seconds float64) string {
	if seconds < 59.5 {
		return strconv.FormatFloat(seconds, 'g', 2, 64) + " s"
	}
	m := math.Round(seconds / 60)
	switch {
	case m < 60:
		return fmt.Sprintf("%.0f min", m)
	case m < 48*60:
		return fmt.Sprintf("%d h %02d min", int(m)/60, int(m)%60)
	}
	return fmt.Sprintf("%.1f days", seconds/86400)
}

// ran begins a sentence about how long it took.
func ran(running bool) string {
	if running {
		return "it has run for"
	}
	return "it ran for"
}
