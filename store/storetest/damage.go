package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// DamagesVariable is the environment variable that selects the random damage to test. It is a number of damages (200), or the first and
// the last seed (1000-1199). A failed test prints its seed, for example 57, which can be repeated as 57-57.
const DamagesVariable = "RECKON_DAMAGES"

// Damages returns the seeds of the random damages that a test tries: the seeds of the variable, or the first few.
func Damages(tb testing.TB, variable string, defaultCount uint64) iter.Seq[uint64] {
	tb.Helper()
	first, end := uint64(0), defaultCount
	if variable != "" {
		var err error
		if first, end, err = parseSeeds(variable); err != nil {
			tb.Fatalf("%s: %v", DamagesVariable, err)
		}
	}
	return func(yield func(uint64) bool) {
		for seed := first; seed < end; seed++ {
			if !yield(seed) {
				return
			}
		}
	}
}

// parseSeeds returns the first seed and the end of the range.
func parseSeeds(s string) (first, end uint64, err error) {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		end, err = strconv.ParseUint(s, 10, 63)
		return 0, end, err
	}
	first, err = strconv.ParseUint(from, 10, 63)
	last, lastErr := strconv.ParseUint(to, 10, 63)
	if err = errors.Join(err, lastErr); err == nil && last < first {
		err = fmt.Errorf("%s: the last seed is below the first", s)
	}
	return first, last + 1, err
}

// Damage is the damage done to a file.
type Damage struct {
	Seed uint64
	File string // below the directory
	What string

	bytes int // it had before
}

// Harmless returns why a damage without possible consequences is not reported, or "".
func (d Damage) Harmless() string {
	switch name := filepath.Base(d.File); {
	case d.bytes == 0:
		return "it was empty, and a missing one is the same"
	case strings.HasSuffix(name, "-shm"):
		return "an index in memory that processes share: SQLite makes it again when the first one opens the database"
	case name == "ballast" && d.What == "removed":
		return "it is given up where a disk is full, and made again"
	case name == "ballast" && !strings.HasPrefix(d.What, "cut"):
		return "it takes room on the disk, and nobody reads it"
	}
	return ""
}

func (d Damage) String() string { return fmt.Sprintf("seed %d: %s: %s", d.Seed, d.File, d.What) }

// DamageRandomFile damages one file below dir. It flips a bit, truncates the file or removes it. The same seed gives the same
// damage. Each type of file is equally likely, even if there are many more files of one type. The modification time
// does not change.
func DamageRandomFile(tb testing.TB, dir string, seed uint64) Damage {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	kinds := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "lock" {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		kinds[fileKind(rel)] = append(kinds[fileKind(rel)], rel)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	names := make([]string, 0, len(kinds))
	for k := range kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	files := kinds[names[rng.IntN(len(names))]]
	d := Damage{Seed: seed, File: files[rng.IntN(len(files))]}
	if d.What, d.bytes, err = damageFile(filepath.Join(dir, d.File), rng); err != nil {
		tb.Fatal(err)
	}
	return d
}

// fileKind returns the path of a file without block names and numbers, so that files of one type have the same result.
func fileKind(rel string) string {
	parts := strings.Split(rel, string(filepath.Separator))
	for i, p := range parts {
		_, err := strconv.Atoi(strings.TrimPrefix(p, "checkpoint."))
		if len(p) == 26 || err == nil {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}

func damageFile(path string, rng *rand.Rand) (what string, size int, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", 0, err
	}
	size = len(raw)
	st, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	switch way := rng.IntN(4); {
	case way == 0 || len(raw) == 0:
		return "removed", size, os.Remove(path)
	case way == 1:
		n := rng.IntN(len(raw))
		what, raw = fmt.Sprintf("cut to %d of %d bytes", n, len(raw)), raw[:n]
	default:
		at, bit := rng.IntN(len(raw)), rng.IntN(8)
		raw[at] ^= 1 << bit
		what = fmt.Sprintf("bit %d of byte %d of %d flipped", bit, at, len(raw))
	}
	return what, size, errors.Join(os.WriteFile(path, raw, 0o640), os.Chtimes(path, st.ModTime(), st.ModTime()))
}
