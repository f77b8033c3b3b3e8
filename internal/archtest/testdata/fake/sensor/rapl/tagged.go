//go:build never

package rapl

import (
	_ "reckon/query"
	"sync/atomic"
)

var hits = atomic.Int64{}
