// Package insecure is empty: tests of other modules name it.
package insecure
