// Package operator takes more of the root than it may.
package operator

import (
	_ "reckon/internal/x"
	_ "reckon/kubernetes/operator/api"
	_ "reckon/metric"
	_ "reckon/store"
	_ "reckon/web/client"
)
