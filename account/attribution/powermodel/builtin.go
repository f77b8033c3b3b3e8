package powermodel

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
)

// Families holds power curves by CPU family, averaged over published SPECpower_ssj2008 results. It
// contains no result of a single system. SPEC and SPECpower_ssj are trademarks of the Standard
// Performance Evaluation Corporation, www.spec.org.
type Families struct {
	Source string `json:"source"`
	Notice string `json:"notice"`
	// Load are the utilisations of the shapes, 0 to 1.
	Load []float64 `json:"load"`
	// Full power is exp(level + PerCore*log(cores) + PerSocket*log(sockets) + PerByte*log(memory in GiB)).
	PerCore   float64  `json:"per_core"`
	PerSocket float64  `json:"per_socket"`
	PerByte   float64  `json:"per_memory"`
	Families  []Family `json:"families"`
}

// Family is one generation of server processors.
type Family struct {
	Name    string  `json:"name"`
	Systems int     `json:"systems"`
	Level   float64 `json:"level"`
	// Shape is power at Load over power at full load.
	Shape []float64 `json:"shape"`
	// Error is the mean absolute error, as a ratio over all loads, of a system left out of the
	// derivation. Low and High hold 90 % of measured over estimated power.
	Error float64 `json:"error"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Cores are the smallest and largest number of physical cores of a system in the derivation,
	// MostMemory the largest memory in GiB.
	Cores      [2]int  `json:"cores"`
	MostMemory float64 `json:"most_memory"`
}

// Limits on extrapolation beyond the systems that a curve was derived from: half the smallest to
// twice the largest number of cores, and 16 times the largest memory. The memory limit is wider
// because power hardly depends on memory and SPECpower systems have little of it.
const (
	coresFactor  = 2
	memoryFactor = 16
)

//go:embed families.json
var familiesJSON []byte

// Errors of [Builtin].
var (
	// ErrNoFamily means that there is no built-in curve for a machine.
	ErrNoFamily = errors.New("no built-in power curve")
	// ErrVirtual means that a machine is virtual: only its host can determine its power.
	ErrVirtual = errors.New("a virtual machine has no power curve of its own")
)

// AnyFamily is the name of the average over all families. [Builtin] does not use it, because its
// error for a system of unknown family is large; callers must request it.
const AnyFamily = "any server"

var familyPatterns = []struct {
	name string
	re   *regexp.Regexp
}{
	{"AMD EPYC 7001", regexp.MustCompile(`EPYC 7\d\d1`)},
	{"AMD EPYC 7002", regexp.MustCompile(`EPYC 7\w\d2`)},
	{"AMD EPYC 7003", regexp.MustCompile(`EPYC 7\w\d3`)},
	{"AMD EPYC 9004", regexp.MustCompile(`EPYC [98]\w\d4`)},
	{"AMD Opteron", regexp.MustCompile(`Opteron`)},
	{"Intel Xeon Scalable 1", regexp.MustCompile(`(Platinum|Gold|Silver|Bronze) \d1\d\d`)},
	{"Intel Xeon Scalable 2", regexp.MustCompile(`(Platinum|Gold|Silver|Bronze) \d2\d\d`)},
	{"Intel Xeon Scalable 3", regexp.MustCompile(`(Platinum|Gold|Silver|Bronze) \d3\d\d`)},
	{"Intel Xeon Scalable 4", regexp.MustCompile(`(Platinum|Gold|Silver|Bronze) \d4\d\d`)},
	{"Intel Xeon v2", regexp.MustCompile(`E[357]-\d{4}\w? ?v2`)},
	{"Intel Xeon v3", regexp.MustCompile(`E[357]-\d{4}\w? ?v3`)},
	{"Intel Xeon v4", regexp.MustCompile(`E[357]-\d{4}\w? ?v4`)},
	{"Intel Xeon E3/E5/E7", regexp.MustCompile(`E[357]-\d{4}`)},
	{"Intel Xeon 3400/5500/5600", regexp.MustCompile(`[ELWX](34|55|56|65|75)\d\d\b`)},
	{"Intel Xeon 3000/5000", regexp.MustCompile(`[ELX]?(30|32|33|50|51|52|53|54|73|74)\d\d\b`)},
}

// FamilyOf returns the name of the family of a CPU by its model name, or [AnyFamily].
func FamilyOf(cpu string) string {
	cpu = simplifyName(cpu)
	for _, f := range familyPatterns {
		if f.re.MatchString(cpu) {
			return f.name
		}
	}
	return AnyFamily
}

// BuiltinFamilies returns the table of built-in families.
func BuiltinFamilies() (*Families, error) {
	f := new(Families)
	if err := json.Unmarshal(familiesJSON, f); err != nil {
		return nil, fmt.Errorf("read built-in families: %w", err)
	}
	return f, nil
}

// Builtin returns a default model for a server that was never measured. It predicts node power from
// cpu_utilization. The error is large; the band and training score give it for systems left out of
// the derivation. Cores are physical cores.
//
// It returns [ErrVirtual] for a virtual machine, and [ErrNoFamily] if the processor family is
// unknown or the machine is unlike the systems that the family was derived from.
func Builtin(m Machine) (*Model, error) {
	if m.Virtual != "" {
		return nil, fmt.Errorf("this is a virtual machine (%s): %w", m.Virtual, ErrVirtual)
	}
	if name := FamilyOf(m.CPU); name != AnyFamily {
		return BuiltinOf(name, m)
	}
	return nil, fmt.Errorf("processor %q is of no family with a curve: %w", simplifyName(m.CPU), ErrNoFamily)
}

// BuiltinOf is like [Builtin] but uses the curve of the named family, which may be [AnyFamily], for any processor.
func BuiltinOf(family string, m Machine) (*Model, error) {
	if m.Cores <= 0 || m.Sockets <= 0 || m.Memory <= 0 {
		return nil, fmt.Errorf("built-in power curve needs cores, sockets and memory, got %d, %d, %g bytes: %w", m.Cores, m.Sockets,
			m.Memory, ErrNoFamily)
	}
	if m.Arch != "" && m.Arch != "amd64" && m.Arch != "x86_64" {
		return nil, fmt.Errorf("built-in power curves are of amd64 servers, this is %s: %w", m.Arch, ErrNoFamily)
	}
	t, err := BuiltinFamilies()
	if err != nil {
		return nil, err
	}
	f := t.find(family)
	if f == nil {
		return nil, fmt.Errorf("no curve of a family %q; there are curves of %s: %w", family, t.familyNames(), ErrNoFamily)
	}
	if err := f.checkMachine(m); err != nil {
		return nil, err
	}
	full := t.Full(f, m)
	y := make([]float64, len(f.Shape))
	for i, s := range f.Shape {
		y[i] = math.Round(100*s*full) / 100
	}
	out := &Model{Format: Format, Version: Version, Name: "built-in: " + f.Name, Domain: "node",
		Machine:  Machine{Arch: m.Arch, CPU: m.CPU, Sockets: m.Sockets, Cores: m.Cores, Memory: m.Memory},
		Features: []Feature{{Name: "cpu_utilization", Unit: "ratio", Max: 1}},
		Parts:    []Part{{Kind: KindCurve, Weight: 1, Curve: NewCurve(0, t.Load, y)}},
		Band:     Band{Coverage: 0.9, Low: f.Low, High: f.High, Points: f.Systems * len(t.Load)},
		Training: Training{Family: "built-in", Source: t.Source, Licence: t.Notice, Rows: f.Systems * len(t.Load),
			Protocol: "leave one system out", Score: Score{Points: f.Systems * len(t.Load), MAPE: f.Error}}}
	return out, out.Check()
}

// checkMachine returns an error for a machine that is unlike the systems of the family.
func (f *Family) checkMachine(m Machine) error {
	if m.Cores*coresFactor < f.Cores[0] || m.Cores > f.Cores[1]*coresFactor {
		return fmt.Errorf("%d cores, where the curve of %s is of systems with %d to %d: %w", m.Cores, f.Name, f.Cores[0], f.Cores[1],
			ErrNoFamily)
	}
	if gib := m.Memory / (1 << 30); gib > f.MostMemory*memoryFactor {
		return fmt.Errorf("%.0f GiB of memory, where the curve of %s is of systems with at most %.0f: %w", gib, f.Name, f.MostMemory,
			ErrNoFamily)
	}
	return nil
}

// Full returns the estimated power of a machine at full load, in watts.
func (t *Families) Full(f *Family, m Machine) float64 {
	return math.Exp(f.Level + t.PerCore*math.Log(float64(m.Cores)) + t.PerSocket*math.Log(float64(m.Sockets)) +
		t.PerByte*math.Log(m.Memory/(1<<30)))
}

// familyNames lists the families that have a curve.
func (t *Families) familyNames() string {
	var out []string
	for i := range t.Families {
		out = append(out, t.Families[i].Name)
	}
	return strings.Join(out, ", ")
}

func (t *Families) find(name string) *Family {
	for i := range t.Families {
		if strings.EqualFold(t.Families[i].Name, name) {
			return &t.Families[i]
		}
	}
	return nil
}
