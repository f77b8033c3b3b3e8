// Package orderedmap is a stub for the package of this name: maps that keep nothing.
package orderedmap

// Map holds nothing.
type Map[K comparable, V any] struct{}

// Pair is an entry; there is none.
type Pair[K comparable, V any] interface {
	Key() K
	Value() V
	Next() Pair[K, V]
}

// New returns a map that stays empty.
func New[K comparable, V any]() *Map[K, V] { return nil }

// Set drops an entry.
func (*Map[K, V]) Set(K, V) {}

// First returns nil.
func (*Map[K, V]) First() Pair[K, V] { return nil }
