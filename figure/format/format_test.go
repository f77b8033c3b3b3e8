package format

import (
	"strconv"
	"strings"
	"testing"

	"reckon/metric"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		write func(float64) string
		v     float64
		want  string
	}{
		{Bytes, 0, "0 B"}, {Bytes, 1023, "1023 B"}, {Bytes, 1023.5, "1 KiB"}, {Bytes, 1024, "1 KiB"}, {Bytes, 1000 << 20, "1000 MiB"},
		{Bytes, 1023.4 * (1 << 20), "1023 MiB"}, {Bytes, 1023.6 * (1 << 20), "1 GiB"}, {Bytes, 7.25 * (1 << 30), "7.2 GiB"}, {Bytes, -3 << 20, "-3 MiB"}, {Bytes, 1e30, "867361737988 EiB"},
		{Rate, 1.5 * (1 << 20), "1.5 MiB/s"},
		{BitRate, 0, "0 b/s"}, {BitRate, 1.25e9, "10 Gb/s"}, {BitRate, 1.175e9, "9.4 Gb/s"}, {BitRate, 12.5e6, "100 Mb/s"},
		{Percent, 0, "0 %"}, {Percent, 0.00049, "< 0.1 %"}, {Percent, 0.0005, "0.1 %"}, {Percent, 0.0994, "9.9 %"}, {Percent, 0.0996, "10 %"}, {Percent, 0.3, "30 %"}, {Percent, 1, "100 %"}, {Percent, -0.25, "-25 %"}, {Percent, 0.05, "5 %"}, {Percent, 0.016, "1.6 %"},
		{Duration, 0, "0 s"}, {Duration, 0.0001, "100 µs"}, {Duration, 0.25, "250 ms"}, {Duration, 9.94, "9.9 s"}, {Duration, 9.96, "10 s"}, {Duration, 59.4, "59 s"}, {Duration, 59.6, "1m 0s"},
		{Duration, 3599.6, "1h 0m"}, {Duration, 7380, "2h 3m"}, {Duration, 86399, "1d 0h"}, {Duration, 273600, "3d 4h"}, {Duration, 8.64e6, "100d"}, {Duration, -125, "-2m 5s"},
		{Duration, 2, "2 s"}, {Time, 0.036, "36 ms"}, {Time, 12, "12 s"}, {Time, 59.6, "1 min"}, {Time, 100, "2 min"}, {Time, 3600, "1 h"}, {Time, 18420, "5 h 7 min"}, {Time, 172740, "47 h 59 min"}, {Time, 276480, "3.2 days"}, {Time, 259200, "3 days"}, {Time, -7200, "-2 h"},
		{Hours, 900, "0.25"}, {Hours, 44280, "12.3"}, {CoreHours, 44442000, "12,345 core-hours"}, {GPUHours, 3600, "1 GPU-hours"},
		{Number, 0.052, "0.05"}, {Number, 0.0052, "0.005"}, {Number, 9.9999, "10"}, {Number, -0.0001, "0"}, {Number, 0.0004, "< 0.001"}, {Number, 0, "0"}, {Number, 15.23, "15.2"}, {Number, 128, "128"}, {Number, 150.4, "150"},
		{Count, 0, "0"}, {Count, 0.5, "0.5"}, {Count, 999.4, "999"}, {Count, 999.6, "1,000"}, {Count, 12345, "12,345"}, {Count, -1234567, "-1,234,567"},
		{Energy, 0, "0 Wh"}, {Energy, 1, "< 0.001 Wh"}, {Energy, 512, "0.14 Wh"}, {Energy, 3598e2, "99.9 Wh"}, {Energy, 999.4 * 3600, "999 Wh"}, {Energy, 999.6 * 3600, "1 kWh"}, {Energy, 5.4e6, "1.5 kWh"}, {Energy, 1e10, "2.8 MWh"},
		{Watts, 0.5, "0.5 W"}, {Watts, 999.4, "999 W"}, {Watts, 1500, "1.5 kW"},
	} {
		if got := c.write(c.v); got != c.want {
			t.Errorf("%g is %q, want %q", c.v, got, c.want)
		}
	}
	if Plural(1, "core") != "1 core" || Plural(2.5, "core") != "2.5 cores" || Plural(0, "GPU") != "0 GPUs" {
		t.Error("plurals")
	}
	for unit, want := range map[metric.Unit]string{
		metric.Bytes: "2 KiB", metric.Seconds: "34m 8s", metric.ByteSeconds: "1 B-hours", metric.Joules: "0.57 Wh", metric.Watts: "2 kW", metric.Ratio: "204800 %", metric.Cores: "2048", metric.None: "2,048",
	} {
		if got := Figure(2048, unit); got != want {
			t.Errorf("2048 %s is %q, want %q", unit, got, want)
		}
	}
}

func TestAtMost(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 2: "2", 2.14: "2.2", 2.1: "2.1", 0.00123: "0.002", 99.96: "100", 12345.2: "12,346", 1e6: "1,000,000"} {
		got := AtMost(v)
		shown, err := strconv.ParseFloat(strings.ReplaceAll(got, ",", ""), 64)
		if err != nil || shown < v {
			t.Errorf("no more than %s is said of %g", got, v)
		}
		if got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}
