package efficiency

import (
	"strconv"
	"strings"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/phrase"
)

func positive(v *float64) bool {
	x, ok := figure.Known(v)
	return ok && x > 0
}

// runTimeStart returns the start of a sentence about the run time.
func runTimeStart(running bool) string {
	if running {
		return "it has run for"
	}
	return "it ran for"
}

// quantity formats a number with its noun: "4 GPUs", "0.04 cores".
func quantity(n float64, one, many string) phrase.Text {
	text := strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + " " + many
	switch {
	case n == 1:
		text = "1 " + one
	case n < 1:
		text = format.Number(n) + " " + many
	}
	return phrase.Number(n, "count", text)
}

// counted1 formats an amount with its noun: "1 core", "0.4 cores".
func counted1(v float64, one, many string) phrase.Text {
	text := cores(v).String()
	if text == "1" {
		return phrase.Number(v, "count", "1 "+one)
	}
	return phrase.Number(v, "count", text+" "+many)
}

// withNoun formats a number after the word "its": "GPU", "4 GPUs".
func withNoun(n float64, noun string) phrase.Text {
	if n == 1 {
		return phrase.Number(1, "count", noun)
	}
	return quantity(n, noun, noun+"s")
}

// cores formats a number of cores with the precision of an allocation: tenths, or hundredths below
// one core. A small positive number is never shown as 0.
func cores(v float64) phrase.Text {
	decimals := 1
	switch {
	case v > 0 && v < 0.005:
		return phrase.Number(v, "cores", "less than 0.01")
	case v < 0.995:
		decimals = 2
	case v >= 100:
		decimals = 0
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return phrase.Number(v, "cores", text)
}

// durationText formats a duration. Batch systems count whole seconds.
func durationText(seconds float64) phrase.Text {
	if seconds == 0 {
		return phrase.Number(0, "seconds", "less than a second")
	}
	return phrase.Time(seconds)
}
