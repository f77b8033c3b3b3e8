// Package hwmon keeps to its rules: its state is never written to.
package hwmon

import (
	"errors"
	"sync"
)

// ErrX and what follows are values, tables and checks.
var (
	ErrX  = errors.New("x")
	table = map[string]int{"a": 1}
	once  = sync.OnceValue(func() int { return 1 })
)

var _ error = ErrX

// Get has a local variable of the same name as a table.
func Get() int {
	table := map[string]int{}
	table["b"] = 2
	delete(table, "b")
	return table["a"] + once()
}

// Table returns it.
func Table() map[string]int { return table }
