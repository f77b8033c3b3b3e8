// Package workload may not even import what is shared.
package workload

import _ "reckon/internal/deep"
