// Package sensor defines the contract of sensors, and the records that structured sensors fill.
//
// A sensor reads one source of the kernel or of the hardware. It is independent of workloads, runs
// no program and touches no network beyond its own device. Each is in its own folder below this
// one, imports no other sensor, and is listed in sensor/all.
//
// There are two kinds. A [Sensor] appends self-contained samples, such as the temperature of a
// device. A [TaskSource], a [Tally] and a cgroup reader fill records that the accounts integrate
// per workload.
//
// There are three outcomes, never two: a source is available, or it is unavailable (an
// [UnavailableError], with the reason and the remedy), or it fails (any other error). An
// unavailable source has no series; it is never reported as zero.
//
// This package imports nothing but the vocabulary, so that pure packages may use it.
package sensor

import (
	"errors"
	"strings"

	"reckon/metric"
)

// Sensor reads one source into samples.
//
// A sensor is used from one goroutine. Read must not allocate after warm-up; sensortest checks that
// unless the sensor declares an exception.
type Sensor interface {
	// Name is the name of the sensor in flags and in reckon_sensor_up, such as "rapl".
	Name() string
	// Descs lists everything that Read may append, for the metric reference.
	Descs() []*metric.Desc
	// Read appends all readable samples. An error names the failed part and the cause. Samples
	// appended before it are valid, so that one broken device never hides the others.
	Read(*metric.Batch) error
	// Close frees descriptors. The sensor is not used afterwards.
	Close() error
}

// ErrUnavailable matches every [UnavailableError] by errors.Is.
var ErrUnavailable = errors.New("not available on this machine")

// UnavailableError is the error of a source that cannot be used, because the hardware, a newer kernel or a permission
// is missing. The agent reports it once, with reckon_sensor_up 0.
type UnavailableError struct {
	// Reason is a short clause for the label reason: "no permission to load BPF".
	Reason string
	// Fix is the remedy, empty if there is none: "run as root or grant CAP_BPF".
	Fix string
	// Err is the cause, if there is one.
	Err error
	// Refused means that Err is an error of the kernel that Reason alone does not explain. The label names it as well.
	Refused bool
}

// Error joins reason, cause and fix into one line.
func (e *UnavailableError) Error() string { return e.format(e.Err != nil) }

// Label returns the error without its cause, unless the kernel refused something.
func (e *UnavailableError) Label() string { return e.format(e.Refused) }

func (e *UnavailableError) format(cause bool) string {
	s := e.Reason
	if cause {
		s += ": " + strings.ReplaceAll(e.Err.Error(), "\n", "; ") // of errors.Join
	}
	if e.Fix != "" {
		s += " (" + e.Fix + ")"
	}
	return s
}

// Unwrap makes the cause visible to errors.Is.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrUnavailable].
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unavailable returns an [UnavailableError].
func Unavailable(reason, fix string, cause error) error {
	return &UnavailableError{Reason: reason, Fix: fix, Err: cause}
}

// RefusedError returns an [UnavailableError] for something that the kernel refused with an error.
func RefusedError(reason, fix string, cause error) error {
	return &UnavailableError{Reason: reason, Fix: fix, Err: cause, Refused: true}
}

// RefusedAny returns an [UnavailableError] for a partial refusal of the kernel, or nil if there is no cause.
func RefusedAny(reason string, causes ...error) error {
	if cause := errors.Join(causes...); cause != nil {
		return RefusedError(reason, "", cause)
	}
	return nil
}
