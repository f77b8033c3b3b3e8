// Package v1 is empty: tests of Prometheus import one of this name, and `go mod tidy` wants it to be there.
package v1
