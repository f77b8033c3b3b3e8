package power

import (
	"fmt"
	"math"
	"strings"

	"reckon/analysis/powerfit"
)

// readServer reads the measurements of a server with a wall meter (canuto_*). They consist of power, counters of the operating system
// and, if hardware is set, performance counters. It keeps rows with non-finite values, because reckon has to handle them.
func readServer(dir, name string, hardware bool) (powerfit.Data, error) {
	c, err := readCSV(dir, name)
	if err != nil {
		return powerfit.Data{}, err
	}
	d := powerfit.Data{}
	if d.Watts, err = c.numberColumn("powerWatts"); err != nil {
		return d, err
	}
	if d.Workload, err = c.textColumn("workload"); err != nil {
		return d, err
	}
	if d.Time, err = c.numberColumn("timestamp"); err != nil {
		return d, err
	}
	type feature struct {
		name, unit string
		factor     float64
		columns    []string
	}
	fs := []feature{
		{"cpu_utilization", "ratio", 0.01, []string{"cpu_user", "cpu_nice", "cpu_system", "cpu_intr", "cpu_sintr"}},
		{"cpu_user", "ratio", 0.01, []string{"cpu_user", "cpu_nice"}},
		{"cpu_system", "ratio", 0.01, []string{"cpu_system"}},
		{"cpu_interrupt", "ratio", 0.01, []string{"cpu_intr", "cpu_sintr"}},
		{"cpu_iowait", "ratio", 0.01, []string{"cpu_wio"}},
		{"context_switches", "1/s", 1, []string{"contexts"}},
		{"interrupts", "1/s", 1, []string{"interrupts"}},
		{"disk_read_bytes", "B/s", 1, []string{"bytes_read"}},
		{"disk_write_bytes", "B/s", 1, []string{"bytes_written"}},
		{"disk_operations", "1/s", 1, []string{"reads", "writes"}},
		{"network_bytes", "B/s", 1, []string{"bytes_in", "bytes_out"}},
		{"network_packets", "1/s", 1, []string{"pkts_in", "pkts_out"}},
		{"paging", "1/s", 1, []string{"page_in", "page_out"}},
	}
	if hardware {
		fs = append(fs, feature{"cpu_cycles", "1/s", 1, []string{"cpu-cycles"}},
			feature{"cpu_instructions", "1/s", 1, []string{"instructions"}},
			feature{"llc_loads", "1/s", 1, []string{"LLC-loads"}},
			feature{"llc_misses", "1/s", 1, []string{"LLC-load-misses"}})
	}
	for _, f := range fs {
		v, err := c.sumColumns(f.factor, f.columns...)
		if err != nil {
			return d, err
		}
		d.Features = append(d.Features, powerfit.Column{Name: f.name, Unit: f.unit, Values: v})
	}
	return d, nil
}

// readOrin reads the AGX Orin log: power is the sum of the four rails.
func readOrin(dir string) (powerfit.Data, error) {
	c, err := readCSV(dir, "jetson_agx_orin_llm_jtop.csv")
	if err != nil {
		return powerfit.Data{}, err
	}
	d := powerfit.Data{}
	d.Watts, err = c.sumColumns(1e-3, "VDD_GPU_SOC-IN_POWER", "VDD_CPU_CV-IN_POWER", "VIN_SYS_5V0-IN_POWER", "VDDQ_VDD2_1V8AO-IN_POWER")
	if err != nil {
		return d, err
	}
	n := len(d.Watts)
	cpu, speed := make([]float64, n), make([]float64, n)
	for core := range 12 {
		load, err := c.numberColumn(fmt.Sprintf("CPU%d-CURR_LOAD", core))
		if err != nil {
			return d, err
		}
		hz, err := c.numberColumn(fmt.Sprintf("CPU%d-CURR_FREQ", core))
		if err != nil {
			return d, err
		}
		for i := range n {
			cpu[i] += load[i] / 1200
			speed[i] += load[i] / 100 * hz[i] * 1e6
		}
	}
	d.Features = []powerfit.Column{{Name: "cpu_utilization", Unit: "ratio", Values: cpu}, {Name: "cpu_cycles", Unit: "1/s", Values: speed}}
	for _, f := range []struct {
		name, unit, column string
		factor             float64
	}{
		{"gpu_utilization", "ratio", "IGPU0-CURR_LOAD", 0.01},
		{"gpu_frequency", "Hz", "IGPU0-CURR_FREQ", 1e6},
		{"memory_controller_load", "", "EMC-CURR_LOAD", 1},
		{"memory_controller_frequency", "Hz", "EMC-CURR_FREQ", 1e6},
		{"memory_used", "ratio", "MEM-CURR_LOAD", 0.01},
		{"cpu_temperature", "Cel", "cpu-thermal-CURR_TEMP", 1},
		{"gpu_temperature", "Cel", "gpu-thermal-CURR_TEMP", 1},
	} {
		v, err := c.sumColumns(f.factor, f.column)
		if err != nil {
			return d, err
		}
		d.Features = append(d.Features, powerfit.Column{Name: f.name, Unit: f.unit, Values: v})
	}
	clock, err := c.textColumn("System-Time")
	if err != nil {
		return d, err
	}
	for i, s := range clock {
		var h, m, sec float64
		if _, err := fmt.Sscanf(strings.ReplaceAll(s, ":", " "), "%f %f %f", &h, &m, &sec); err != nil {
			return d, fmt.Errorf("%s row %d: time %q: %w", c.name, i+2, s, err)
		}
		t := h*3600 + m*60 + sec
		if i > 0 && t < d.Time[i-1]-43200 {
			t += 86400
		}
		d.Time = append(d.Time, t)
	}
	return d, nil
}

// rowRange returns rows from up to to of d.
func rowRange(d powerfit.Data, from, to int) powerfit.Data {
	out := powerfit.Data{Watts: d.Watts[from:to]}
	for _, c := range d.Features {
		c.Values = c.Values[from:to]
		out.Features = append(out.Features, c)
	}
	if d.Time != nil {
		out.Time = d.Time[from:to]
	}
	if d.Workload != nil {
		out.Workload = d.Workload[from:to]
	}
	return out
}

// meanError returns the MAPE of the training part's mean power on the test part.
func meanError(train, test powerfit.Data) float64 {
	m, s := mean(train.Watts), 0.0
	for _, y := range test.Watts {
		s += math.Abs(m-y) / y / float64(len(test.Watts))
	}
	return s
}
