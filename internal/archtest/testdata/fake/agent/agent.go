// Package agent knows everything, but must not link this.
package agent

import (
	"os"

	_ "reckon/internal/deep"
)

// Home may be asked for here.
func Home() string { return os.Getenv("HOME") }
