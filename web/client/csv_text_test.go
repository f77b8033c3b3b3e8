package client_test

import (
	"testing"

	"reckon/web/client"
)

func TestCSVText(t *testing.T) {
	for text, want := range map[string]string{
		"=cmd|'/c calc'!A1": "'=cmd|'/c calc'!A1", "+1+1": "'+1+1", "-cmd": "'-cmd", "@SUM(1)": "'@SUM(1)", "train": "train", "": "",
		"-2": "-2", "+3.5e-7": "+3.5e-7", "-": "'-", "a=b": "a=b", "\x1b[31mred": `\u001b[31mred`, "c1\u009b": `c1\u009b`, "\t=1": `\u0009=1`, "two\nlines": "two\nlines", "Müller": "Müller",
	} {
		if got := client.CSVText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
