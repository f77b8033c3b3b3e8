// Package libopenapi stands in for the package of this name, which the tests of Prometheus
// import: `go mod tidy` wants it to be there.
package libopenapi
