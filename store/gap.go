package store

import (
	"fmt"
	"time"
)

// Gap says that samples of a time were lost to damage: those of one file. Answers about that
// time are incomplete, not wrong.
type Gap struct {
	// From and To enclose the lost samples. A zero From is the begin of what is kept.
	From, To time.Time
	File     string    // what was damaged, as a path below the directory of the store
	Why      string    // what is wrong with it
	Kept     string    `json:",omitempty"` // where it is kept for a person to look at; empty where there is nothing
	Noticed  time.Time // when it was noticed
}

// String says which samples are missing, and why.
func (g Gap) String() string {
	from := "the begin"
	if !g.From.IsZero() {
		from = g.From.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("samples from %s to %s are missing or incomplete: %s: %s", from, g.To.UTC().Format(time.RFC3339), g.File, g.Why)
	if g.Kept != "" {
		text += " (kept in " + g.Kept + ")"
	}
	return text
}
