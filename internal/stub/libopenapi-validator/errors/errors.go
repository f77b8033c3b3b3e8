// Package errors is a stub for the package of this name.
package errors
