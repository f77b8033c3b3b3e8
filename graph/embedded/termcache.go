package embedded

import (
	"sync"

	"reckon/graph"
	"reckon/graph/sparql"
)

// maxCachedTerms and maxCachedText limit the cache of terms: 100,000 terms, and 8 MiB of text.
const (
	maxCachedTerms = 100_000
	maxCachedText  = 8 << 20
)

// termCache caches recently queried terms by id. Callers clear it before an id can be reused for another term. It is
// safe for concurrent use.
type termCache struct {
	mu   sync.Mutex
	of   map[sparql.ID]graph.Term
	text int // bytes
}

func (c *termCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of, c.text = nil, 0
}

// lookup fills in the cached terms, and returns the positions of the others.
func (c *termCache) lookup(ids []sparql.ID, out []graph.Term) (missing []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		t, ok := c.of[id]
		if !ok {
			missing = append(missing, i)
			continue
		}
		out[i] = t
	}
	return missing
}

// add caches the terms at some positions. A full cache is cleared first.
func (c *termCache) add(ids []sparql.ID, terms []graph.Term, at []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range at {
		t := terms[i]
		size := len(t.Value) + len(t.Datatype) + len(t.Language)
		if c.of == nil || len(c.of) >= maxCachedTerms || c.text+size > maxCachedText {
			c.of, c.text = map[sparql.ID]graph.Term{}, 0
		}
		if size > maxCachedText {
			continue
		}
		c.of[ids[i]] = t
		c.text += size
	}
}
