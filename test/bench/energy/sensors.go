package energy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/all"
	"reckon/test/bench/measure"
)

// machineTree creates the files of a simulated node for energy and GPU sensors below root. The node has two packages
// with memory and a platform meter, a server power meter, and eight accelerators with their tables and sensors. It has
// the given number of processes, and clients is the number of those that compute on an accelerator. File names, units
// and layouts follow the kernel documentation.
func machineTree(root string, processes, clients int) error {
	var err error
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
	}
	link := func(to, path string) {
		path = filepath.Join(root, path)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.Symlink(to, path)
		}
	}
	zone := func(dir, name, joules string) {
		write("sys/class/powercap/"+dir+"/name", name+"\n")
		write("sys/class/powercap/"+dir+"/energy_uj", joules+"\n")
		write("sys/class/powercap/"+dir+"/max_energy_range_uj", "262143328850\n")
	}
	for i := range 2 {
		zone(fmt.Sprintf("intel-rapl:%d", i), fmt.Sprintf("package-%d", i), "123456789")
		zone(fmt.Sprintf("intel-rapl:%d:0", i), "dram", "23456789")
	}
	zone("intel-rapl:2", "psys", "323456789")
	write("sys/class/hwmon/hwmon0/name", "power_meter\n")
	write("sys/class/hwmon/hwmon0/power1_average", "812000000\n")
	for i := range 8 {
		pci := fmt.Sprintf("0000:%02x:00.0", 0x10+i)
		dir := "sys/devices/pci0000:00/" + pci
		for name, text := range map[string]string{
			"vendor": "0x1002\n", "device": "0x74a1\n", "product_name": "AMD Instinct MI300X\n", "gpu_busy_percent": "90\n",
			"mem_info_vram_used": "8589934592\n", "mem_info_vram_total": "206141652992\n", "ras/umc_err_count": "ue: 1\nce: 4\n",
			"hwmon/hwmon3/power1_input": "500000000\n", "hwmon/hwmon3/temp2_label": "junction\n", "hwmon/hwmon3/temp2_input": "71000\n",
			"gpu_metrics": string(instinctTable()),
		} {
			write(dir+"/"+name, text)
		}
		link("../../../bus/pci/drivers/amdgpu", dir+"/driver")
		link("../../../devices/pci0000:00/"+pci, fmt.Sprintf("sys/class/drm/card%d/device", i))
	}
	write("dev/null", "")
	for i := range processes {
		pid := 1000 + i
		for fd := range 5 {
			link("/dev/null", fmt.Sprintf("proc/%d/fd/%d", pid, fd))
		}
		write(fmt.Sprintf("proc/%d/fdinfo/0", pid), "pos:\t0\nflags:\t02\n")
		if i < clients {
			link("/dev/dri/renderD128", fmt.Sprintf("proc/%d/fd/9", pid))
			write(fmt.Sprintf("proc/%d/fdinfo/9", pid),
				fmt.Sprintf("pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t685\n"+
					"drm-driver:\tamdgpu\ndrm-client-id:\t%d\ndrm-pdev:\t0000:%02x:00.0\npasid:\t32771\n"+
					"drm-memory-vram:\t1024 KiB\ndrm-memory-gtt:\t5 KiB\ndrm-engine-gfx:\t5000000 ns\n", i+1, 0x10+i%8))
		}
	}
	return err
}

// instinctTable returns a gpu_metrics table of revision 1.8 with only temperature, power, energy and use.
func instinctTable() []byte {
	b := make([]byte, 3872)
	for i := range b {
		b[i] = 0xff
	}
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	b[2], b[3] = 1, 8
	binary.LittleEndian.PutUint16(b[4:], 71)
	binary.LittleEndian.PutUint16(b[10:], 500)
	binary.LittleEndian.PutUint64(b[24:], 1e12)
	binary.LittleEndian.PutUint32(b[40:], 1000)
	binary.LittleEndian.PutUint32(b[76:], 60000)
	return b
}

// measurePasses measures the CPU time of reading all energy and GPU sensors: for a tick, and in addition for an export.
func measurePasses(e *measure.Env, rounds int) error {
	if err := machineTree(e.Dir, 1000, 100); err != nil {
		return err
	}
	var meters []sensor.MeterSource
	var gpus []sensor.GPUSource
	var samples []sensor.Sensor
	var names []string
	for _, one := range all.Sensors(e.Dir) {
		switch one.Name {
		case "rapl", "cray", "hwmon", "battery", "thermal", "tegra", "nvml", "amdgpu", "drm":
		default:
			continue
		}
		s, err := one.Open()
		if err != nil {
			continue // not on this node
		}
		defer s.Close()
		names, samples = append(names, one.Name), append(samples, s)
		if m, ok := s.(sensor.MeterSource); ok {
			meters = append(meters, m)
		}
		if g, ok := s.(sensor.GPUSource); ok {
			gpus = append(gpus, g)
		}
	}
	var read []sensor.Meter
	var pass sensor.GPUPass
	var batch metric.Batch
	var failed error
	tick := func() error {
		pass.Reset()
		for _, g := range gpus {
			failed = errors.Join(failed, g.ReadGPU(&pass))
		}
		read = read[:0]
		for _, m := range meters {
			var err error
			read, err = m.ReadMeters(read)
			failed = errors.Join(failed, err)
		}
		return failed
	}
	export := func() error {
		batch.Reset(time.Now())
		for _, s := range samples {
			failed = errors.Join(failed, s.Read(&batch))
		}
		return failed
	}
	// One reading a second, as in the agent, because some of a sensor's work depends on time, such
	// as the search for processes that opened a device.
	per := func(f func() error) (sum float64) {
		failed = errors.Join(failed, f())
		for range rounds {
			time.Sleep(time.Second)
			cpu, _, err := measure.CPUTime(f)
			failed = errors.Join(failed, err)
			sum += measure.MS(cpu) / float64(rounds)
		}
		return sum
	}
	t, x := per(tick), per(export)
	if failed != nil {
		return failed
	}
	row := e.Table(fmt.Sprintf("A pass over %v: %d meters, %d GPUs, %d uses of them by 1,000 processes", names, len(read),
		len(pass.Devices), len(pass.Uses)),
		"what", "CPU time", "budget")
	row("one tick (each second) | %.3f ms | 2 ms", t)
	row("one export of %d samples (each 15 s) | %.3f ms | |", len(batch.Samples), x)
	return nil
}
