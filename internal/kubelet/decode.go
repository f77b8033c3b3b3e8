package kubelet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
)

// decoder decodes consecutive lists of pods. It identifies an unchanged pod by the hash of its JSON text and does not
// decode it again. Few pods differ between two lists, but their order varies.
type decoder struct {
	seed maphash.Seed
	// known are the decoded pods of the last complete list and of truncated ones since then.
	known map[uint64]*Pod
	text  []byte // memory for one pod
	fresh int    // how many the last list had that were not known; for tests
}

// decode reads a v1.PodList. If the input breaks off, it returns the complete pods and an error.
func (d *decoder) decode(r io.Reader) (pods []*Pod, err error) {
	if d.known == nil {
		d.seed, d.known = maphash.MakeSeed(), map[uint64]*Pod{}
	}
	d.fresh = 0
	in := &limitedReader{r: r}
	j := json.NewDecoder(in)
	if some, err := skipToItems(j); err != nil || !some {
		return nil, malformedError(err)
	}
	began := j.InputOffset()
	list := objectSplitter{r: io.MultiReader(j.Buffered(), in), buf: make([]byte, 0, 16<<10)}
	now := make(map[uint64]*Pod, len(d.known))
	for {
		in.upTo = min(began+list.read+maxPod, maxResponse)
		d.text, err = list.nextObject(d.text[:0])
		if err == io.EOF {
			d.known = now
			return pods, nil
		}
		if err != nil {
			break
		}
		if len(pods) == maxPods {
			return pods, fmt.Errorf("the list of pods has more than %d", maxPods)
		}
		var p *Pod
		if p, err = d.decodePod(now); err != nil {
			break
		}
		if p.ReportedUID != "" {
			pods = append(pods, p)
		}
	}
	if d.text != nil && cap(d.text) > 1<<20 {
		d.text = nil
	}
	for sum, p := range now {
		d.known[sum] = p
	}
	return pods, malformedError(err)
}

// decodePod parses the pod of d.text and adds it to now. The caller fills in the returned pod.
func (d *decoder) decodePod(now map[uint64]*Pod) (*Pod, error) {
	sum := maphash.Bytes(d.seed, d.text)
	p := cmp.Or(d.known[sum], now[sum])
	if p == nil {
		var w wirePod
		if err := json.Unmarshal(d.text, &w); err != nil {
			return nil, err
		}
		d.fresh++
		p = w.toPod()
	}
	now[sum] = p
	own := *p
	own.Containers = slices.Clone(p.Containers)
	return &own, nil
}

// objectSplitter splits a JSON list after its opening bracket into its objects, without parsing them.
type objectSplitter struct {
	r     io.Reader
	buf   []byte // data read so far
	at    int    // in buf
	read  int64  // bytes from r
	first bool   // an object came
}

// nextObject appends the next object to text. Its error is io.EOF at the end of the list.
func (l *objectSplitter) nextObject(text []byte) ([]byte, error) {
	for comma := false; ; {
		c, err := l.skipSpace()
		switch {
		case err != nil:
			return text, err
		case c == '{' && comma == l.first:
			l.first = true
			return l.readObject(text)
		case c == ',' && l.first && !comma:
			comma = true
		case c == ']' && !comma:
			return text, io.EOF
		default:
			return text, fmt.Errorf("%q where a pod should begin", c)
		}
		l.at++
	}
}

// skipSpace moves to the next byte that is no white space, and returns it.
func (l *objectSplitter) skipSpace() (byte, error) {
	for {
		for ; l.at < len(l.buf); l.at++ {
			switch c := l.buf[l.at]; c {
			case ' ', '\t', '\n', '\r':
			default:
				return c, nil
			}
		}
		if err := l.readMore(); err != nil {
			return 0, err
		}
	}
}

// readMore reads more input once all of buf was consumed. At the end of the input, the list breaks off.
func (l *objectSplitter) readMore() error {
	n, err := l.r.Read(l.buf[:cap(l.buf)])
	l.buf, l.at = l.buf[:n], 0
	l.read += int64(n)
	switch {
	case n > 0:
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// readObject appends the object that begins here, up to the brace that closes it.
func (l *objectSplitter) readObject(text []byte) ([]byte, error) {
	depth, quoted, escaped := 0, false, false
	for {
		from := l.at
		for l.at < len(l.buf) {
			c := l.buf[l.at]
			l.at++
			switch {
			case escaped:
				escaped = false
			case c == '"':
				quoted = !quoted
			case quoted:
				escaped = c == '\\'
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				if depth--; depth == 0 {
					return append(text, l.buf[from:l.at]...), nil
				}
			}
		}
		text = append(text, l.buf[from:l.at]...)
		if err := l.readMore(); err != nil {
			return text, err
		}
	}
}

// skipToItems moves to the first pod. It returns false if there is no list, as for a node without pods.
func skipToItems(d *json.Decoder) (some bool, err error) {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false, cmp.Or(err, errors.New("it is no object"))
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false, err
		}
		if key == "items" {
			t, err := d.Token()
			if err == nil && t != nil && t != json.Delim('[') {
				err = errors.New("its items are no list")
			}
			return t != nil, err
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return false, err
		}
	}
	return false, errors.New("it has no items")
}

// limitedReader fails if a pod, or the whole list, is implausibly large.
type limitedReader struct {
	r        io.Reader
	at, upTo int64
}

func (b *limitedReader) Read(p []byte) (int, error) {
	if limit := cmp.Or(b.upTo, maxPod); b.at >= limit {
		return 0, fmt.Errorf("it is larger than %d MiB", limit>>20)
	}
	n, err := b.r.Read(p)
	b.at += int64(n)
	return n, err
}
