package tegra

import (
	"strings"
	"time"

	"reckon/internal/sysfs"
	"reckon/sensor"
	"reckon/sensor/tegra/tegrastats"
)

// Device is the name of the integrated GPU. A Tegra has one.
const Device = "igpu0"

// gpuRails are the rails that feed the GPU. On AGX Orin, such a rail also feeds the fabric of the chip. On Orin NX,
// Orin Nano and Xavier NX one rail feeds processors and GPU, so no meter shows the GPU alone.
var gpuRails = []string{"VDD_GPU_SOC", "VDD_GPU", "VDD_SYS_GPU", "POM_5V_GPU", "GPU"}

// integratedGPU is the GPU of the chip. NVML reads the GPU of Thor, so it does not count here.
type integratedGPU struct {
	device  sensor.GPU
	series  *sensor.GPUSeries
	holders *gpuHolders
	at      time.Time // of the last reading of its load
	total   float64   // busy seconds
}

func openIntegratedGPU(root string) *integratedGPU {
	if strings.Contains(sysfs.ReadWord(sysfs.Path(root, "proc/device-tree/compatible")), "nvidia,tegra264") {
		return nil
	}
	g := &integratedGPU{device: sensor.GPU{Vendor: "nvidia", Device: Device,
		Model: strings.TrimSpace(sysfs.ReadWord(sysfs.Path(root, "proc/device-tree/model")))}, holders: openHolders(root)}
	g.series = sensor.NewGPUSeries(&g.device)
	return g
}

// ReadGPU implements sensor.GPUSource. The driver does not report GPU time per process. ReadGPU lists the processes
// that have the GPU open, with their memory. The agent divides the GPU time by memory, or evenly if memory is unknown.
// The label method shows the method.
func (s *Sensor) ReadGPU(p *sensor.GPUPass) error {
	g := s.gpu
	if g == nil {
		return nil
	}
	now := s.now()
	busy, known := s.readLoad(now)
	d := &g.device
	d.Have &^= sensor.GPUBusy | sensor.GPUMemory
	d.Span, d.Busy = 0, 0
	if !known {
		g.at = time.Time{} // time without a load reading does not count
		return nil
	}
	d.Have |= sensor.GPUBusy
	if span := now.Sub(g.at); !g.at.IsZero() && span > 0 && span < sensor.Gap {
		d.Span, d.Busy = span.Seconds(), busy*span.Seconds()
		g.total += d.Busy
	}
	g.at = now
	from := len(p.Uses)
	err := g.holders.appendUses(p, now)
	d.Memory = 0
	for i := from; i < len(p.Uses); i++ {
		if p.Uses[i].Have&sensor.GPUMemory != 0 {
			d.Have |= sensor.GPUMemory
			d.Memory += p.Uses[i].Memory
		}
	}
	p.Devices = append(p.Devices, *d)
	return err
}

// readLoad returns the busy fraction of the GPU.
func (s *Sensor) readLoad(now time.Time) (busy float64, ok bool) {
	if s.text != nil {
		if st, err := s.text.Read(now); err == nil {
			return st.GPU.Busy.V, st.GPU.Busy.OK
		}
	}
	if s.board == nil || s.board.load == nil {
		return 0, false
	}
	v, err := s.board.load.Int()
	return float64(v) / 1000, err == nil && v >= 0 && v <= 1000
}

// gpuRail returns the rail that feeds the GPU alone.
func gpuRail(rails []tegrastats.Rail) *tegrastats.Rail {
	for _, name := range gpuRails {
		for i := range rails {
			if rails[i].Name == name {
				return &rails[i]
			}
		}
	}
	return nil
}
