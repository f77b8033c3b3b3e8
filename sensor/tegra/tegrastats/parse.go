package tegrastats

import "strings"

// maxNames limits the memory for names from a stream of nonsense.
const maxNames = 512

// maxParts limits each list of a line.
const maxParts = 256

// Parser parses lines of tegrastats. It caches names, so that parsing does not allocate after the first line. Its zero
// value is ready for use.
type Parser struct {
	names    map[string]string
	line     []byte // the rest of the line
	clusters []float64
}

// Parse parses a line into s and skips unknown fields. It returns false if the line has no known figure and is
// therefore not from tegrastats.
func (p *Parser) Parse(line []byte, s *Stats) bool {
	s.Reset()
	p.line = line
	found := false
	for {
		w := p.nextWord()
		if len(w) == 0 {
			return found
		}
		if !isFieldName(w) {
			continue // the date, or the rest of something unknown
		}
		if at := indexByte(w, '@'); at > 0 { // name@31.5C
			if c, ok := parseCelsius(w[at+1:]); ok {
				found = true
				if name := p.intern(w[:at]); name != "" && c > powerOffTemperature && len(s.Temperatures) < maxParts {
					s.Temperatures = append(s.Temperatures, Temperature{name, c})
				}
			}
			continue
		}
		found = p.parseField(w, s) || found
	}
}

// powerOffTemperature and below is not a temperature: Tegra writes -256 for a zone without power.
const powerOffTemperature = -200

// parseField parses the value after a name.
func (p *Parser) parseField(key []byte, s *Stats) bool {
	switch string(key) {
	case "RAM":
		return p.parseMemory(&s.RAMUsed, &s.RAMTotal, nil, s)
	case "SWAP":
		return p.parseMemory(&s.SwapUsed, &s.SwapTotal, &s.SwapCached, s)
	case "IRAM":
		var used, total Value
		return p.parseMemory(&used, &total, nil, nil)
	case "MTS":
		return p.parseTranslation(s)
	case "EDP": // "EDP limit 1734"
		p.nextWord()
		p.nextWord()
		return false
	}
	v := p.peekWord()
	switch {
	case len(v) == 0:
		return false
	case v[0] == '[':
		if k := string(key); k == "CPU" || k == "cpu" {
			p.nextWord()
			return parseCores(v, s)
		}
		return false
	}
	if r, ok := parseRail(v); ok {
		p.nextWord()
		if r.Name = p.intern(key); r.Name != "" && r.Name != "NC" && len(s.Rails) < maxParts && !hasRail(s.Rails, r.Name) {
			s.Rails = append(s.Rails, r)
		}
		return true
	}
	var e Engine
	var ok bool
	if e, p.clusters, ok = parseEngine(v, p.clusters); !ok {
		return false
	}
	p.nextWord()
	p.storeEngine(strings.TrimSuffix(p.intern(key), "_FREQ"), e, s)
	return true
}

// storeEngine stores an engine by its name.
func (p *Parser) storeEngine(k string, e Engine, s *Stats) {
	switch k {
	case "":
	case "GR3D":
		e.Name = k
		s.GPU, s.Clusters = e, append(s.Clusters[:0], p.clusters...)
	case "EMC":
		e.Name, s.Memory = k, e
	case "GR3D2": // the second cluster of Orin, before L4T 35.4
		if len(s.Clusters) == 0 && s.GPU.Hertz.OK {
			s.Clusters = append(s.Clusters, s.GPU.Hertz.V)
		}
		if e.Hertz.OK && len(s.Clusters) < maxParts {
			s.Clusters = append(s.Clusters, e.Hertz.V)
		}
		if e.Busy.OK && (!s.GPU.Busy.OK || e.Busy.V > s.GPU.Busy.V) {
			s.GPU.Busy = e.Busy
		}
	default:
		if e.Name = k; len(s.Engines) < maxParts {
			s.Engines = append(s.Engines, e)
		}
	}
}

func hasRail(rails []Rail, name string) bool {
	for i := range rails {
		if rails[i].Name == name {
			return true
		}
	}
	return false
}

// parseMemory reads "5246/7771MB (lfb 7x4MB)" or "983/20269MB (cached 280MB)".
func (p *Parser) parseMemory(used, total, cached *Value, s *Stats) bool {
	v := p.peekWord()
	a, rest, ok := parseNumber(v)
	if !ok || len(rest) == 0 || rest[0] != '/' {
		return false
	}
	b, unit, ok := parseNumber(rest[1:])
	scale := byteUnit(unit)
	if !ok || scale == 0 {
		return false
	}
	p.nextWord()
	*used, *total = Value{a * scale, true}, Value{b * scale, true}
	if v := p.peekWord(); indexByte(unit, '(') < 0 && (len(v) == 0 || v[0] != '(') {
		return true
	} else if indexByte(unit, '(') < 0 {
		p.nextWord()
	}
	v = p.nextWord() // the text in the parentheses
	n, rest, ok := parseNumber(v)
	switch {
	case !ok:
	case len(rest) > 0 && rest[0] == 'x' && s != nil:
		if size, unit, ok := parseNumber(rest[1:]); ok && byteUnit(unit) > 0 {
			s.FreeBlocks, s.FreeBlockSize = Value{n, true}, Value{size * byteUnit(unit), true}
		}
	case cached != nil && byteUnit(rest) > 0:
		*cached = Value{n * byteUnit(rest), true}
	}
	return true
}

// parseTranslation reads "fg 1% bg 9%".
func (p *Parser) parseTranslation(s *Stats) bool {
	found := false
	for _, f := range []struct {
		name string
		to   *Value
	}{{"fg", &s.Foreground}, {"bg", &s.Background}} {
		if string(p.peekWord()) != f.name {
			return found
		}
		p.nextWord()
		v, rest, ok := parseNumber(p.peekWord())
		if !ok || len(rest) == 0 || rest[0] != '%' {
			return found
		}
		p.nextWord()
		*f.to, found = Value{v / 100, true}, true
	}
	return found
}

// parseCores reads "[47%@1420,off,3%]" and the older "[0%,0%]@345".
func parseCores(v []byte, s *Stats) bool {
	end := indexByte(v, ']')
	if end < 0 {
		return false
	}
	var all Value
	if rest := v[end+1:]; len(rest) > 1 && rest[0] == '@' {
		if f, _, ok := parseNumber(rest[1:]); ok {
			all = Value{f * 1e6, true}
		}
	}
	for list := v[1:end]; len(list) > 0 && len(s.CPUs) < 4096; {
		item := list
		if i := indexByte(list, ','); i >= 0 {
			item, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		e, _, ok := parseEngine(item, nil)
		c := CPU{Online: ok && !e.Off, Busy: e.Busy, Hertz: e.Hertz}
		if c.Online && !c.Hertz.OK {
			c.Hertz = all
		}
		s.CPUs = append(s.CPUs, c)
	}
	return len(s.CPUs) > 0
}

// parseEngine parses the state of an engine: "79%@166", "0%", "@1600", "115", "off", "0%@[407,407]" or "@[0,0,0]". It stores the clocks of
// several clusters in the slice clusters and returns that slice. The clock of the engine is the highest of them.
func parseEngine(v []byte, clusters []float64) (e Engine, _ []float64, ok bool) {
	clusters = clusters[:0]
	if string(v) == "off" {
		return Engine{Off: true}, clusters, true
	}
	if n, rest, is := parseNumber(v); is {
		switch {
		case len(rest) == 0:
			e.Hertz = Value{n * 1e6, true}
			return e, clusters, true
		case rest[0] != '%':
			return e, clusters, false
		}
		e.Busy = Value{min(n/100, 1), n >= 0}
		v = rest[1:]
		if len(v) == 0 {
			return e, clusters, true
		}
	}
	if len(v) < 2 || v[0] != '@' {
		return e, clusters, false
	}
	v = v[1:]
	if v[0] != '[' {
		n, rest, is := parseNumber(v)
		e.Hertz = Value{n * 1e6, is}
		return e, clusters, is && len(rest) == 0
	}
	for v = v[1:]; ; v = v[1:] {
		n, rest, is := parseNumber(v)
		if !is || len(rest) == 0 || len(clusters) >= maxParts {
			return e, clusters, false
		}
		clusters = append(clusters, n*1e6)
		e.Hertz = Value{max(e.Hertz.V, n*1e6), true}
		if v = rest; v[0] != ',' {
			return e, clusters, v[0] == ']'
		}
	}
}

// parseRail reads "6140/5510", "2763mW/2846mW", "5139mW/5139mW/5139mW" and "2171mW".
func parseRail(v []byte) (r Rail, ok bool) {
	now, rest, ok := parseNumber(v)
	if !ok {
		return r, false
	}
	scale, rest, unit := parseWattUnit(rest)
	r.Watts = now * scale
	if len(rest) == 0 {
		return r, unit // a number alone is a clock
	}
	if rest[0] != '/' {
		return r, false
	}
	average, rest, ok := parseNumber(rest[1:])
	if !ok {
		return r, false
	}
	scale, rest, _ = parseWattUnit(rest)
	r.Average = Value{average * scale, true}
	return r, len(rest) == 0 || rest[0] == '/'
}
