package metric

import "strings"

// Cache returns the same [Series] pointer for the same description and label values. Producers that discover label
// values at each reading (device names, mount points) use it. [Cache.Sweep] drops series that were not requested since
// the previous Sweep. Cache allocates only for new series.
type Cache struct {
	byDesc map[*Desc]map[string]*entry
	round  uint64
	key    []byte
}

type entry struct {
	series *Series
	round  uint64
}

// Get returns the series of d with the given label values.
func (c *Cache) Get(d *Desc, values ...string) *Series {
	c.key = c.key[:0]
	for _, v := range values {
		c.key = append(c.key, v...)
		c.key = append(c.key, 0xff) // invalid in UTF-8, so no two value sets share a key
	}
	m := c.byDesc[d]
	if e, ok := m[string(c.key)]; ok {
		e.round = c.round
		return e.series
	}
	if c.byDesc == nil {
		c.byDesc = make(map[*Desc]map[string]*entry)
	}
	if m == nil {
		m = make(map[string]*entry)
		c.byDesc[d] = m
	}
	own := make([]string, len(values))
	for i, v := range values {
		own[i] = strings.Clone(v)
	}
	e := &entry{series: NewSeries(d, own...), round: c.round}
	m[string(c.key)] = e
	return e.series
}

// Sweep drops every series that was not requested since the previous Sweep.
func (c *Cache) Sweep() {
	for _, m := range c.byDesc {
		for k, e := range m {
			if e.round != c.round {
				delete(m, k)
			}
		}
	}
	c.round++
}
