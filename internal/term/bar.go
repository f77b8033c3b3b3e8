package term

import (
	"math"
	"strings"
)

var barRunes = []rune(" ▏▎▍▌▋▊▉█")

// Bar draws a share (0 to 1) as a bar of the given width. A share above 1 fills the bar and ends
// with ">". An unknown share is an empty bar with "-" in the middle.
func (s Screen) Bar(share *float64, width int) string {
	if width <= 0 {
		return ""
	}
	if isUnknown(share) {
		left := (width - 1) / 2
		return strings.Repeat(" ", left) + Unknown + strings.Repeat(" ", width-left-1)
	}
	v := max(*share, 0)
	over := v > 1.0005
	v = min(v, 1)
	var b strings.Builder
	if s.ASCII {
		full := int(math.Round(v * float64(width)))
		b.WriteString(strings.Repeat("#", full) + strings.Repeat(".", width-full))
	} else {
		n := int(math.Round(v * float64(width) * 8))
		if n == 0 && v > 0 {
			n = 1 // a small share is visible
		}
		b.WriteString(strings.Repeat("█", n/8))
		used := n / 8
		if n%8 != 0 {
			b.WriteRune(barRunes[n%8])
			used++
		}
		b.WriteString(strings.Repeat(" ", width-used))
	}
	if over {
		r := []rune(b.String())
		r[len(r)-1] = '>'
		return string(r)
	}
	return b.String()
}
