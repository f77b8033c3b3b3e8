// Package libopenapi is a stub for the package of this name, which the tests of Prometheus
// import: `go mod tidy` requires it to exist.
package libopenapi
