// Package slurmtext parses the text fields of Slurm's commands: times, durations, sizes, lists of TRES and GRES, exit codes, states, and
// job numbers. See sacct(1), squeue(1), sinfo(1), and slurm.conf(5) on AccountingStorageTRES.
//
// Results are in SI base units: seconds, bytes. A field without a value (empty, Unknown, N/A and so on) is the zero value without an
// error; an invalid one is an error that quotes it. The package has no state.
package slurmtext

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Clip shortens a field for an error message.
func Clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:57], "") + "..."
	}
	return s
}

// IsUnset reports whether a field is one of the words for no value.
func IsUnset(s string) bool {
	switch strings.TrimSpace(s) {
	case "", "Unknown", "None", "none", "NONE", "N/A", "(null)", "None assigned", "INVALID", "UNLIMITED", "Partition_Limit":
		return true
	}
	return false
}

// Word returns a field, or empty for a word for no value.
func Word(s string) string {
	if IsUnset(s) {
		return ""
	}
	return s
}

// maxNumber is the highest plausible number.
const maxNumber = 1e18

// Number parses a non-negative number.
func Number(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= maxNumber) {
		return 0, fmt.Errorf("%q is not a number of 0 or more", Clip(s))
	}
	return math.Abs(v), nil // -0 is 0
}

// Size parses a number with a unit of 1024, such as 10808.05M; without a unit it is in units of bare.
func Size(s string, bare float64) (float64, error) {
	by := bare
	if s != "" {
		if at := strings.IndexByte("KMGTPE", s[len(s)-1]&^0x20); at >= 0 {
			by, s = math.Exp2(float64(10*(at+1))), s[:len(s)-1]
		}
	}
	v, err := Number(s)
	return v * by, err
}

// Exit parses CODE:SIGNAL to an exit code as in a shell: 128 plus the signal for a process ended by one.
func Exit(s string) (*int, error) {
	code, signal, _ := strings.Cut(s, ":")
	c, err := strconv.ParseUint(code, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("exit code %q is not CODE:SIGNAL", Clip(s))
	}
	n, err := strconv.ParseUint(signal, 10, 16)
	if err != nil {
		n = 0
	}
	return ExitCode(float64(c), float64(n)), nil
}

// Suspended returns the number of seconds that a job was suspended during its run. reported is Slurm's figure at the
// end of the job, and span is the time from start to end, in seconds. If a job is cancelled while suspended, Slurm sets
// its end to the start of that suspension but still counts the suspension. elapsed excludes only suspension within the
// run. If elapsed is nil, a suspension as long as the whole job is taken to lie after its end.
func Suspended(reported, span float64, elapsed *float64) float64 {
	switch {
	case elapsed != nil:
		return max(min(reported, span-*elapsed), 0)
	case reported >= span:
		return 0
	}
	return reported
}

// ExitReduced reports whether sacct may have subtracted 128 from an exit code CODE:SIGNAL. sacct does so for codes of
// 128 or more without a signal (src/sacct/print.c of Slurm 22.05), so 127:0 may mean 127 or 255. The controller reports
// codes unchanged.
func ExitReduced(s string) bool {
	code, signal, _ := strings.Cut(s, ":")
	c, err := strconv.ParseUint(code, 10, 16)
	return err == nil && c > 0 && c < 128 && (signal == "" || signal == "0")
}

// ExitCode does the same for numbers. It returns nil for impossible ones, such as signal 125, which Slurm uses for out of memory.
func ExitCode(code, signal float64) *int {
	if !(code >= 0 && code <= 1<<16 && signal >= 0 && signal <= 64) {
		return nil
	}
	n := int(code)
	if signal > 0 && n == 0 {
		n = 128 + int(signal)
	}
	return &n
}
