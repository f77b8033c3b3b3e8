package stress

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseCPU parses a CPU load: 40% (of one core), 2x40% (two threads at 40 % each), all or allx40% (one thread for each
// of cpus processors), or 1.5 (cores).
func ParseCPU(text string, cpus int) (cores float64, workers int, err error) {
	bad := func() (float64, int, error) {
		return 0, 0, fmt.Errorf("%q is no CPU load: give 40%% (of a core), 2x40%%, all, allx40%% or a number of cores such as 1.5", text)
	}
	s := strings.TrimSpace(text)
	if s == "all" {
		return float64(cpus), cpus, nil
	}
	if count, each, ok := strings.Cut(s, "x"); ok {
		if count == "all" {
			workers = cpus
		} else if workers, err = strconv.Atoi(count); err != nil || workers < 1 || workers > maxWorkers {
			return bad()
		}
		if !strings.HasSuffix(each, "%") {
			return bad()
		}
		share, err := ParseShare(each)
		if err != nil || share > 1 {
			return bad()
		}
		return float64(workers) * share, workers, nil
	}
	if strings.HasSuffix(s, "%") {
		share, err := ParseShare(s)
		if err != nil || share > maxWorkers {
			return bad()
		}
		return share, 0, nil
	}
	cores, err = strconv.ParseFloat(s, 64)
	if err != nil || !(cores >= 0 && cores <= maxWorkers) {
		return bad()
	}
	return cores, 0, nil
}

// ParseShare parses a percentage, with or without the sign: 30% is 0.3.
func ParseShare(text string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")), 64)
	if err != nil || !(v >= 0 && v <= 1e6) {
		return 0, fmt.Errorf("%q is no percentage: give a number from 0 up, such as 30%%", text)
	}
	return v / 100, nil
}

// ParseRange parses two percentages: 0..100.
func ParseRange(text string) (from, to float64, err error) {
	a, b, ok := strings.Cut(text, "..")
	if ok {
		if from, err = ParseShare(a); err == nil {
			to, err = ParseShare(b)
		}
	}
	if !ok || err != nil {
		return 0, 0, fmt.Errorf("%q is no range of percentages: give FROM..TO such as 0..100", text)
	}
	return from, to, nil
}

// unitOf returns the number of bytes of a unit. KiB and the like are powers of 1024, and KB and the like are powers of
// 1000. A letter alone is a power of 1024, as in Slurm and ulimit. It returns false for any other word.
func unitOf(word string) (bytes float64, ok bool) {
	w := strings.ToLower(word)
	if w == "" || w == "b" {
		return 1, true
	}
	if w == "bit" {
		return 1.0 / 8, true
	}
	power := strings.IndexByte("kmgtp", w[0]) + 1
	if power == 0 {
		return 0, false
	}
	switch w[1:] {
	case "", "i", "ib":
		return math.Pow(1024, float64(power)), true
	case "b":
		return math.Pow(1000, float64(power)), true
	case "bit":
		return math.Pow(1000, float64(power)) / 8, true
	}
	return 0, false
}

// maxAmount is the largest amount that is accepted, in bytes.
const maxAmount = 1e15

// ParseBytes parses an amount of at most 1 PB: 512MiB, 20MB, 4096.
func ParseBytes(text string) (float64, error) {
	s := strings.TrimSpace(text)
	digits := len(s) - len(strings.TrimLeft(s, "0123456789."))
	v, err := strconv.ParseFloat(s[:digits], 64)
	unit, ok := unitOf(strings.TrimSpace(s[digits:]))
	if err == nil && ok && v*unit > maxAmount {
		return 0, fmt.Errorf("%q is more than 1 PB, which no machine holds", text)
	}
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is no amount of bytes: give a number with a unit: 512MiB, 20MB, 2GiB", text)
	}
	return v * unit, nil
}

// ParseRate parses an amount per second, such as 20MB/s or 100Mbit/s. The unit of time may be omitted.
func ParseRate(text string) (float64, error) {
	v, err := ParseBytes(strings.TrimSuffix(strings.TrimSpace(text), "/s"))
	if err != nil {
		return 0, fmt.Errorf("%q is no rate: give bytes each second with a unit: 20MB/s, 5MiB/s, 100Mbit/s", text)
	}
	return v, nil
}

// ParseDisk parses a disk load: write=20MB/s, read=5MB/s or both with a comma.
func ParseDisk(text string) (read, write float64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		word, rate, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || word != "read" && word != "write" {
			return 0, 0, fmt.Errorf("%q is no disk load: give write=RATE, read=RATE or both: write=20MB/s,read=5MB/s", text)
		}
		v, err := ParseRate(rate)
		if err != nil {
			return 0, 0, err
		}
		if word == "read" {
			read = v
		} else {
			write = v
		}
	}
	return read, write, nil
}
