// Package kubernetes is empty: tests of Prometheus import one of this name, and `go mod tidy` wants it to be there.
package kubernetes
