package cgpath

// Memo is a cache for up to two generations of keys. Once the young generation is full, it becomes the old one, and old
// keys that were not used since are dropped. It is not safe for concurrent use.
type Memo[V any] struct {
	young, old map[string]V
}

// maxGeneration is the maximum number of keys in a generation. No node has more jobs or units.
const maxGeneration = 2048

// Get returns the value put last.
func (m *Memo[V]) Get(key string) (v V, ok bool) {
	if v, ok = m.young[key]; ok {
		return v, true
	}
	if v, ok = m.old[key]; ok {
		m.Put(key, v)
	}
	return v, ok
}

// Put stores v.
func (m *Memo[V]) Put(key string, v V) {
	if m.young == nil || len(m.young) >= maxGeneration {
		m.old, m.young = m.young, make(map[string]V)
	}
	m.young[key] = v
}
