// Package to is empty. go mod tidy looks for it, since tests of Prometheus import it.
package to
