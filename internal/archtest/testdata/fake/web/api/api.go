// Package api sees an implementation, and Kubernetes.
package api

import (
	_ "k8s.io/client-go/rest"
	_ "reckon/sensor"
	_ "reckon/store"
	_ "reckon/store/tsdb"
)
