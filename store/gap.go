package store

import (
	"fmt"
	"time"
)

// Gap is a time range in which samples of one file were lost through damage. Answers about this range are incomplete.
type Gap struct {
	// From and To enclose the lost samples. A zero From is the beginning of the stored data.
	From, To time.Time
	File     string    // the damaged file, as a path below the directory of the store
	Why      string    // description of the damage
	Kept     string    `json:",omitempty"` // path of the copy for inspection; empty if there is none
	Noticed  time.Time // when it was noticed
}

// String describes the missing samples and the cause.
func (g Gap) String() string {
	from := "the beginning"
	if !g.From.IsZero() {
		from = g.From.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("samples from %s to %s are missing or incomplete: %s: %s", from, g.To.UTC().Format(time.RFC3339), g.File, g.Why)
	if g.Kept != "" {
		text += " (kept in " + g.Kept + ")"
	}
	return text
}
