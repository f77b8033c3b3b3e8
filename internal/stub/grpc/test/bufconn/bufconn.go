// Package bufconn is empty: tests of other modules name it.
package bufconn
