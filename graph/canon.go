package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrTooSymmetric reports that the blank nodes of a graph cannot be distinguished within the step limit.
var ErrTooSymmetric = errors.New("the blank nodes of the graph are too much alike to be named in bounded time")

// maxCanonicalSteps limits the recursion over blank nodes with equal hashes: some graphs take exponential time.
const maxCanonicalSteps = 20_000

// Canonical returns the quads in sorted order with blank nodes renamed to c14n0, c14n1 and so on (RDF Dataset
// Canonicalization, https://www.w3.org/TR/rdf-canon/, with SHA-256). Two sets of quads are isomorphic if and only if
// Canonical returns the same list for both.
func Canonical(quads []Quad) ([]Quad, error) {
	c := canonicaliser{of: map[string][]Quad{}, first: map[string]string{}, names: newNamer("c14n")}
	for _, q := range quads {
		for _, label := range blankLabels(q) {
			c.of[label] = append(c.of[label], q)
		}
	}
	if len(c.of) == 0 {
		return Sorted(quads), nil
	}
	if err := c.nameAll(); err != nil {
		return nil, err
	}
	out := make([]Quad, len(quads))
	for i, q := range quads {
		out[i] = relabel(q, func(label string) string { return c.names.given[label] })
	}
	return Sorted(out), nil
}

// Isomorphic reports whether two sets of quads are equal up to the names of blank nodes.
func Isomorphic(a, b []Quad) (bool, error) {
	x, err := Canonical(a)
	if err != nil {
		return false, err
	}
	y, err := Canonical(b)
	return err == nil && slices.Equal(x, y), err
}

func blankLabels(q Quad) (labels []string) {
	for _, t := range []Term{q.S, q.O, q.G} {
		if t.Kind == Blank && !slices.Contains(labels, t.Value) {
			labels = append(labels, t.Value)
		}
	}
	return labels
}

func relabel(q Quad, name func(string) string) Quad {
	for _, t := range []*Term{&q.S, &q.O, &q.G} {
		if t.Kind == Blank {
			t.Value = name(t.Value)
		}
	}
	return q
}

// namer issues names in the order of the requests.
type namer struct {
	prefix string
	given  map[string]string
	order  []string
}

func newNamer(prefix string) *namer { return &namer{prefix: prefix, given: map[string]string{}} }

func (n *namer) nameFor(label string) string {
	if got, ok := n.given[label]; ok {
		return got
	}
	got := n.prefix + strconv.Itoa(len(n.order))
	n.given[label] = got
	n.order = append(n.order, label)
	return got
}

func (n *namer) clone() *namer {
	c := &namer{prefix: n.prefix, given: make(map[string]string, len(n.given)), order: slices.Clone(n.order)}
	for k, v := range n.given {
		c.given[k] = v
	}
	return c
}

type canonicaliser struct {
	of    map[string][]Quad // the quads of a blank node
	first map[string]string // its first-degree hash
	names *namer
	steps int
}

func hashHex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func (c *canonicaliser) nameAll() error {
	byHash := map[string][]string{}
	for label := range c.of {
		h := c.hashFirstDegree(label)
		byHash[h] = append(byHash[h], label)
	}
	hashes := slices.Sorted(maps.Keys(byHash))
	for _, h := range hashes {
		if len(byHash[h]) == 1 {
			c.names.nameFor(byHash[h][0])
		}
	}
	for _, h := range hashes {
		labels := byHash[h]
		if len(labels) == 1 {
			continue
		}
		slices.Sort(labels)
		var paths []path
		for _, label := range labels {
			if _, named := c.names.given[label]; named {
				continue
			}
			issuer := newNamer("b")
			issuer.nameFor(label)
			p, err := c.hashManyDegrees(label, issuer)
			if err != nil {
				return err
			}
			paths = append(paths, p)
		}
		slices.SortStableFunc(paths, func(a, b path) int { return strings.Compare(a.hash, b.hash) })
		for _, p := range paths {
			for _, label := range p.issuer.order {
				c.names.nameFor(label)
			}
		}
	}
	return nil
}

func (c *canonicaliser) hashFirstDegree(label string) string {
	if h, ok := c.first[label]; ok {
		return h
	}
	lines := make([]string, 0, len(c.of[label]))
	for _, q := range c.of[label] {
		lines = append(lines, relabel(q, func(l string) string {
			if l == label {
				return "a"
			}
			return "z"
		}).String()+"\n")
	}
	slices.Sort(lines)
	h := hashHex(strings.Join(lines, ""))
	c.first[label] = h
	return h
}

type path struct {
	hash   string
	issuer *namer
}

func (c *canonicaliser) hashRelated(label string, q Quad, issuer *namer, position string) string {
	in := position
	if position != "g" {
		in += "<" + q.P.Value + ">"
	}
	if name, ok := c.names.given[label]; ok {
		return hashHex(in + "_:" + name)
	}
	if name, ok := issuer.given[label]; ok {
		return hashHex(in + "_:" + name)
	}
	return hashHex(in + c.hashFirstDegree(label))
}

// hashManyDegrees implements Hash N-Degree Quads of the specification.
func (c *canonicaliser) hashManyDegrees(label string, issuer *namer) (path, error) {
	groups := map[string][]string{}
	for _, q := range c.of[label] {
		for position, t := range map[string]Term{"s": q.S, "o": q.O, "g": q.G} {
			if t.Kind == Blank && t.Value != label {
				h := c.hashRelated(t.Value, q, issuer, position)
				groups[h] = append(groups[h], t.Value)
			}
		}
	}
	hashes := slices.Sorted(maps.Keys(groups))
	var data strings.Builder
	for _, h := range hashes {
		data.WriteString(h)
		group := groups[h]
		slices.Sort(group)
		var best string
		var chosen *namer
		err := eachOrder(group, func(order []string) error {
			text, with, err := c.walkOrder(order, issuer.clone(), best)
			if err != nil || with == nil {
				return err
			}
			if best == "" || text < best {
				best, chosen = text, with
			}
			return nil
		})
		if err != nil {
			return path{}, err
		}
		data.WriteString(best)
		if chosen != nil {
			issuer = chosen
		}
	}
	return path{hashHex(data.String()), issuer}, nil
}

// walkOrder walks one order of related blank nodes. A nil namer means that this order cannot beat best.
func (c *canonicaliser) walkOrder(order []string, issuer *namer, best string) (string, *namer, error) {
	var text strings.Builder
	var deeper []string
	worse := func() bool { return best != "" && text.Len() >= len(best) && text.String() > best }
	for _, label := range order {
		if c.steps++; c.steps > maxCanonicalSteps {
			return "", nil, ErrTooSymmetric
		}
		if name, ok := c.names.given[label]; ok {
			text.WriteString("_:" + name)
			continue
		}
		if _, ok := issuer.given[label]; !ok {
			deeper = append(deeper, label)
		}
		text.WriteString("_:" + issuer.nameFor(label))
		if worse() {
			return "", nil, nil
		}
	}
	for _, label := range deeper {
		p, err := c.hashManyDegrees(label, issuer)
		if err != nil {
			return "", nil, err
		}
		text.WriteString("_:" + issuer.nameFor(label) + "<" + p.hash + ">")
		issuer = p.issuer
		if worse() {
			return "", nil, nil
		}
	}
	return text.String(), issuer, nil
}

// eachOrder calls f with every order of list until f fails, starting with the sorted one.
func eachOrder(list []string, f func([]string) error) error {
	order := slices.Clone(list)
	for {
		if err := f(order); err != nil {
			return err
		}
		i := len(order) - 2
		for i >= 0 && order[i] >= order[i+1] {
			i--
		}
		if i < 0 {
			return nil
		}
		j := len(order) - 1
		for order[j] <= order[i] {
			j--
		}
		order[i], order[j] = order[j], order[i]
		slices.Reverse(order[i+1:])
	}
}
