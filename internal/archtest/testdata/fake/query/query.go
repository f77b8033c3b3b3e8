// Package query sees an implementation.
package query

import (
	_ "reckon/store"
	_ "reckon/store/tsdb"
)
