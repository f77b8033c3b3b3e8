// Package account is not pure.
package account

import (
	_ "net/http"
	_ "os"
	clock "time"

	_ "reckon/sensor"
)

// Now reads a clock under another name.
func Now() clock.Time { return clock.Now() }

// Later is a duration and reads none.
const Later = 3 * clock.Second
