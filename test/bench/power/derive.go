package power

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"reckon/account/attribution/powermodel"
	"reckon/analysis/powerfit"
)

const notice = "Averages derived from published SPECpower_ssj2008 results (www.spec.org, read 2026-11-20). " +
	"SPEC and SPECpower_ssj are trademarks of the Standard Performance Evaluation Corporation."

// deriveTables writes the two tables that reckon embeds: the prior of curve shapes, and the averages by CPU family. root is
// the root of the repository.
func deriveTables(dir, root string) error {
	systems, err := readSpec(dir)
	if err != nil {
		return err
	}
	var curves []powerfit.Curve
	for _, s := range systems {
		curves = append(curves, s.curve)
	}
	p, err := powerfit.NewPrior(notice, curves)
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(root, "analysis/powerfit/prior.json"), p); err != nil {
		return err
	}
	f := fitFamilies(systems, fewestSystems)
	judgeFamilies(systems, f)
	return writeJSON(filepath.Join(root, "account/attribution/powermodel/families.json"), f)
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// relativePower returns the power at the load u relative to the power at full load.
func (s *system) relativePower(u float64) float64 {
	return powermodel.NewCurve(0, s.curve.Load, s.curve.Watts).At(u) / s.curve.Watts[10]
}

func (s *system) toMachine() powermodel.Machine {
	return powermodel.Machine{CPU: s.cpu, Cores: s.cores, Sockets: s.chips, Memory: s.memory * (1 << 30)}
}

// priorSystems is the weight of the average over all families, as a number of systems, when it is combined with the average
// of one family. The values of small families are thus drawn towards the average over all.
const priorSystems = 3

// fewestSystems is the number of systems at which a family gets its own line.
const fewestSystems = 6

// fitFamilies derives the table of CPU families. Slopes are fitted by least squares within families. Levels and shapes
// are means that are shrunk towards the mean of all systems. fewest is the minimum number of systems of a family.
func fitFamilies(systems []system, fewest int) *powermodel.Families {
	t := &powermodel.Families{Source: notice, Notice: notice, Load: powerfit.PriorKnots()}
	by := map[string][]*system{}
	for i := range systems {
		s := &systems[i]
		by[powermodel.FamilyOf(s.cpu)] = append(by[powermodel.FamilyOf(s.cpu)], s)
	}
	names := slices.Sorted(maps.Keys(by))
	facts := func(s *system) [4]float64 {
		return [4]float64{math.Log(float64(s.cores)), math.Log(float64(s.chips)), math.Log(s.memory), math.Log(s.curve.Watts[10])}
	}
	var a [3][4]float64
	for _, n := range names {
		var m [4]float64
		for _, s := range by[n] {
			for k, v := range facts(s) {
				m[k] += v / float64(len(by[n]))
			}
		}
		for _, s := range by[n] {
			v := facts(s)
			for i := range 3 {
				for j := range 4 {
					a[i][j] += (v[i] - m[i]) * (v[j] - m[j])
				}
			}
		}
	}
	x := solve3(a)
	t.PerCore, t.PerSocket, t.PerByte = x[0], x[1], x[2]
	span := func(f *powermodel.Family, ss []*system) {
		for _, s := range ss {
			if f.Cores[0] == 0 || s.cores < f.Cores[0] {
				f.Cores[0] = s.cores
			}
			f.Cores[1] = max(f.Cores[1], s.cores)
			f.MostMemory = max(f.MostMemory, s.memory)
		}
	}
	summary := func(ss []*system) (level float64, shape []float64) {
		shape = make([]float64, len(t.Load))
		for _, s := range ss {
			v := facts(s)
			level += (v[3] - x[0]*v[0] - x[1]*v[1] - x[2]*v[2]) / float64(len(ss))
			for k, u := range t.Load {
				shape[k] += s.relativePower(u) / float64(len(ss))
			}
		}
		return level, shape
	}
	var everything []*system
	for i := range systems {
		everything = append(everything, &systems[i])
	}
	level, shape := summary(everything)
	t.Families = []powermodel.Family{{Name: powermodel.AnyFamily, Systems: len(systems), Level: level, Shape: shape}}
	span(&t.Families[0], everything)
	for _, n := range names {
		if n == powermodel.AnyFamily || len(by[n]) < fewest {
			continue
		}
		l, sh := summary(by[n])
		k := float64(len(by[n]))
		l = (k*l + priorSystems*level) / (k + priorSystems)
		for i := range sh {
			sh[i] = (k*sh[i] + priorSystems*shape[i]) / (k + priorSystems)
		}
		f := powermodel.Family{Name: n, Systems: len(by[n]), Level: l, Shape: sh}
		span(&f, by[n])
		t.Families = append(t.Families, f)
	}
	return t
}

// solve3 solves a three by three system by elimination; a tiny ridge keeps it regular.
func solve3(a [3][4]float64) [3]float64 {
	for i := range 3 {
		a[i][i] += 1e-6
		for r := range 3 {
			if r != i {
				f := a[r][i] / a[i][i]
				for c := range 4 {
					a[r][c] -= f * a[i][c]
				}
			}
		}
	}
	return [3]float64{a[0][3] / a[0][0], a[1][3] / a[1][1], a[2][3] / a[2][2]}
}

// familyIn returns the family in a table that a system is estimated by.
func familyIn(t *powermodel.Families, cpu string) string {
	name := powermodel.FamilyOf(cpu)
	for _, f := range t.Families {
		if f.Name == name {
			return name
		}
	}
	return powermodel.AnyFamily
}

// judgeFamilies computes the error of each family. It leaves out one system at a time, derives the table from the others and
// estimates the omitted system. The average over all families is judged by systems without a family, because only those
// use it.
func judgeFamilies(systems []system, t *powermodel.Families) {
	ratios := map[string][]float64{}
	for i := range systems {
		without := fitFamilies(append(slices.Clone(systems[:i]), systems[i+1:]...), fewestSystems-1)
		s := &systems[i]
		for _, f := range without.Families {
			if f.Name != familyIn(without, s.cpu) {
				continue
			}
			full := without.Full(&f, s.toMachine())
			for k := range s.curve.Watts {
				ratios[f.Name] = append(ratios[f.Name], s.curve.Watts[k]/(full*f.Shape[k]))
			}
		}
	}
	for i := range t.Families {
		f := &t.Families[i]
		r := ratios[f.Name]
		if len(r) == 0 {
			continue
		}
		slices.Sort(r)
		for _, v := range r {
			f.Error += math.Abs(1/v-1) / float64(len(r))
		}
		// A few systems that happen to agree do not make a narrow band.
		f.Low, f.High = min(r[len(r)/20], 0.8), max(r[len(r)-1-len(r)/20], 1.25)
		fmt.Printf("%-28s %3d systems, error %4.1f %%, band %.2f..%.2f\n", f.Name, f.Systems, 100*f.Error, f.Low, f.High)
	}
}
