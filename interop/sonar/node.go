package sonar

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Figures of the node are in one line of a reading, from release 0.12 on.

func (w *csvRow) toSystem() *System {
	if w.sys == nil {
		w.sys = &System{}
	}
	return w.sys
}

// The digits of load: a number starts with one of loadFirst and continues with loadNext, lowest digit first.
const (
	loadFirst = "(){}[]<>+-abcdefghijklmnopqrstuvwxyz!@#$%^&*_"
	loadNext  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ~|';:.?/`"
)

// maxCores limits the number of processors of a node.
const maxCores = 1 << 16

// parseBusy parses the field load=, which has the busy seconds of each processor since boot. The first number is the minimum
// over all processors. Each further number is the difference of one processor from it.
func parseBusy(b []byte) ([]float64, error) {
	var all []uint64
	var by uint64
	for _, c := range b {
		if d := strings.IndexByte(loadFirst, c); d >= 0 {
			all, by = append(all, uint64(d)), 45
			continue
		}
		d := strings.IndexByte(loadNext, c)
		if d < 0 || by == 0 || by > 1<<50 || len(all) > maxCores {
			return nil, fmt.Errorf("%q is no list of numbers of sonar's", abbreviate(b))
		}
		all[len(all)-1] += uint64(d) * by
		by *= 45
	}
	if len(all) < 2 {
		return nil, errors.New("it lists no processors")
	}
	out := make([]float64, len(all)-1)
	for i := range out {
		out[i] = float64(all[0] + all[i+1])
	}
	return out, nil
}

// maxCards limits the number of GPUs of a node.
const maxCards = 256

// parseCardList parses gpuinfo=: comma-separated lists of one figure for all GPUs, NAME=A|B|C. An empty figure is omitted, as in JSON.
func parseCardList(b []byte) ([]Card, error) {
	var cards []Card
	for part := range bytes.SplitSeq(b, []byte(",")) {
		name, list, ok := strings.Cut(string(part), "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not NAME=A|B", abbreviate(part))
		}
		for i, v := range strings.Split(list, "|") {
			if i >= maxCards {
				return nil, fmt.Errorf("%s is of more than %d GPUs", abbreviate([]byte(name)), maxCards)
			}
			for len(cards) <= i {
				cards = append(cards, Card{Index: uint64(len(cards))})
			}
			if err := cards[i].setFigure(name, v); err != nil {
				return nil, fmt.Errorf("%s: %w", abbreviate([]byte(name)), err)
			}
		}
	}
	return cards, nil
}

// setFigure sets one figure. Unknown names are skipped.
func (c *Card) setFigure(name, v string) (err error) {
	if v == "" || strings.EqualFold(v, "unknown") {
		return nil
	}
	figure := func(into *float64, by float64) { *into, err = parseAmount([]byte(v), by) }
	switch name {
	case "fan%":
		figure(&c.Fan, 0.01)
	case "perf":
		n, bad := strconv.ParseUint(strings.TrimPrefix(v, "P"), 10, 8)
		if bad != nil {
			return fmt.Errorf("%q is no performance state such as P2", abbreviate([]byte(v)))
		}
		c.Performance = &n
	case "musekib":
		figure(&c.Memory, 1024)
	case "cutil%":
		figure(&c.Busy, 0.01)
	case "tempc":
		figure(&c.Temperature, 1)
	case "poww":
		figure(&c.Power, 1)
	case "powlimw":
		figure(&c.PowerLimit, 1)
	case "cez":
		figure(&c.Clock, 1e6)
	case "memz":
		figure(&c.MemoryClock, 1e6)
	}
	return err
}
