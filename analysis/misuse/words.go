package misuse

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// number writes few with a decimal and many without.
func number(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	if v < 0.1 {
		return strconv.FormatFloat(v, 'g', 1, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// percent is a share as people write it.
func percent(share float64) string {
	switch {
	case share > 0 && share < 0.001:
		return "less than 0.1 %"
	case share < 0.1:
		return strings.TrimSuffix(strconv.FormatFloat(100*share, 'f', 1, 64), ".0") + " %"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + " %"
}

// size is an amount of memory as people write it.
func size(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; v >= 1000 && i < len(units)-1; i++ { // 1000 MiB are written as 0.977 GiB
		v /= 1024
	}
	return fmt.Sprintf("%.3g %s", v, units[i])
}

// Span is a length in seconds as people write it, to the minute: 5h, 1h20m, 12m.
func Span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Minute)
	if d < time.Minute {
		return "less than a minute"
	}
	text := strings.TrimSuffix(d.String(), "0s")
	if d >= time.Hour {
		text = strings.TrimSuffix(text, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(text, "h0m")]
	}
	return text
}
