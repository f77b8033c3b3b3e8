// Package resolver is empty: tests of other modules name it.
package resolver
