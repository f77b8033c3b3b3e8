package misuse

import (
	"strings"
	"time"
)

// Span formats seconds as people write them, to the minute: 5h, 1h20m, 12m.
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
