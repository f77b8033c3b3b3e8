package columns

import "math"

// chunkRows is the number of rows in a pack.
const chunkRows = 4096

// packForm is the representation of the numbers of a pack.
type packForm uint8

const (
	same   packForm = iota // all are base
	off8                   // base + a byte; the highest value means unknown
	off16                  // base + two bytes
	off32                  // base + four bytes
	single                 // as float32, which is exact for all of them
	double
)

// pack holds chunkRows numbers in the smallest type that represents each of them exactly. NaN means unknown.
type pack struct {
	form packForm
	base float64
	u8   []uint8
	u16  []uint16
	u32  []uint32
	f32  []float32
	f64  []float64
}

// emptyPack returns a pack without known values.
func emptyPack() pack { return pack{base: math.NaN()} }

func sameValue(a, b float64) bool { return a == b || (a != a && b != b) }

// offset returns the distance of v from base if it is below limit, and limit for an unknown v.
func (p *pack) offset(v float64, limit uint32) (uint32, bool) {
	if v != v {
		return limit, true
	}
	d := v - p.base
	if d < 0 || d >= float64(limit) || d != math.Floor(d) || p.base+d != v {
		return 0, false
	}
	return uint32(d), true
}

// setValue changes a number, and widens the form if it does not fit; it reports whether the form was widened.
func (p *pack) setValue(i int, v float64) (widened bool) {
	switch p.form {
	case same:
		if sameValue(v, p.base) {
			return false
		}
	case off8:
		if d, ok := p.offset(v, math.MaxUint8); ok {
			p.u8[i] = uint8(d)
			return false
		}
	case off16:
		if d, ok := p.offset(v, math.MaxUint16); ok {
			p.u16[i] = uint16(d)
			return false
		}
	case off32:
		if d, ok := p.offset(v, math.MaxUint32); ok {
			p.u32[i] = d
			return false
		}
	case single:
		if sameValue(float64(float32(v)), v) {
			p.f32[i] = float32(v)
			return false
		}
	case double:
		p.f64[i] = v
		return false
	}
	wide := make([]float64, chunkRows)
	p.unpack(wide)
	wide[i] = v
	*p = pack{form: double, f64: wide}
	return true
}

func (p *pack) value(i int) float64 {
	switch p.form {
	case off8:
		return fromOffset(p.base, uint32(p.u8[i]), math.MaxUint8)
	case off16:
		return fromOffset(p.base, uint32(p.u16[i]), math.MaxUint16)
	case off32:
		return fromOffset(p.base, p.u32[i], math.MaxUint32)
	case single:
		return float64(p.f32[i])
	case double:
		return p.f64[i]
	}
	return p.base
}

func fromOffset(base float64, d, limit uint32) float64 {
	if d == limit {
		return math.NaN()
	}
	return base + float64(d)
}

// unpack unpacks the first len(into) numbers.
func (p *pack) unpack(into []float64) {
	switch p.form {
	case off8:
		for i, d := range p.u8[:len(into)] {
			into[i] = fromOffset(p.base, uint32(d), math.MaxUint8)
		}
	case off16:
		for i, d := range p.u16[:len(into)] {
			into[i] = fromOffset(p.base, uint32(d), math.MaxUint16)
		}
	case off32:
		for i, d := range p.u32[:len(into)] {
			into[i] = fromOffset(p.base, d, math.MaxUint32)
		}
	case single:
		for i, v := range p.f32[:len(into)] {
			into[i] = float64(v)
		}
	case double:
		copy(into, p.f64)
	default:
		for i := range into {
			into[i] = p.base
		}
	}
}

// values returns the numbers, unpacked into buf unless they are stored unpacked.
func (p *pack) values(buf []float64) []float64 {
	if p.form == double {
		return p.f64[:len(buf)]
	}
	p.unpack(buf)
	return buf
}

// shrink repacks the numbers in the narrowest form. buf has room for chunkRows.
func (p *pack) shrink(buf []float64) {
	if p.form == same {
		return
	}
	v := p.values(buf)
	low, high := math.Inf(1), math.Inf(-1)
	all, whole, short := true, true, true
	for _, x := range v {
		all = all && sameValue(x, v[0])
		if x != x {
			continue
		}
		low, high = min(low, x), max(high, x)
		whole = whole && x == math.Floor(x)
		short = short && float64(float32(x)) == x
	}
	if all {
		*p = pack{base: v[0]}
		return
	}
	to := pack{form: double, base: low}
	switch d := high - low; {
	case whole && d < math.MaxUint8:
		to.form, to.u8 = off8, make([]uint8, chunkRows)
	case whole && d < math.MaxUint16:
		to.form, to.u16 = off16, make([]uint16, chunkRows)
	case short:
		to.form, to.f32 = single, make([]float32, chunkRows)
	case whole && d < math.MaxUint32:
		to.form, to.u32 = off32, make([]uint32, chunkRows)
	}
	if to.form == p.form && (to.form == single || to.form == double || to.base == p.base) {
		return
	}
	for i, x := range v {
		if to.setValue(i, x) { // for whole numbers too large for an offset from the lowest
			return
		}
	}
	*p = to
}

// memoryBytes returns the memory of the pack's numbers.
func (p *pack) memoryBytes() int {
	return len(p.u8) + 2*len(p.u16) + 4*len(p.u32) + 4*len(p.f32) + 8*len(p.f64)
}
