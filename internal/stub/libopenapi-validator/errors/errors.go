// Package errors stands in for the package of this name.
package errors
