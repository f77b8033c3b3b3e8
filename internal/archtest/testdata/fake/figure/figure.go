// Package figure sees identities, which it must not.
package figure

import (
	_ "reckon/metric"
	_ "reckon/workload"
)
