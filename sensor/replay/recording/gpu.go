package recording

import (
	"encoding/json"
	"fmt"

	"reckon/sensor"
)

// wireGPUs is a reading of GPUs and of their uses by processes.
type wireGPUs struct {
	Devices []wireGPU `json:"devices,omitempty"`
	Uses    []wireGPU `json:"uses,omitempty"`
}

type wireGPU struct {
	Have    []string        `json:"have"`
	Figures json.RawMessage `json:"figures"`
}

// encodeGPUs returns nil without a reading.
func encodeGPUs(p *sensor.GPUPass) (json.RawMessage, error) {
	if p == nil {
		return nil, nil
	}
	var w wireGPUs
	for _, g := range p.Devices {
		figures, err := json.Marshal(encodeShape(g, gpuShape()))
		if err != nil {
			return nil, err
		}
		w.Devices = append(w.Devices, wireGPU{bitsToNames(gpuNames, g.Have), figures})
	}
	for _, u := range p.Uses {
		figures, err := json.Marshal(encodeShape(u, useShape()))
		if err != nil {
			return nil, err
		}
		w.Uses = append(w.Uses, wireGPU{bitsToNames(gpuNames, u.Have), figures})
	}
	return json.Marshal(&w)
}

// decodeGPUs is the inverse of encodeGPUs.
func decodeGPUs(data json.RawMessage) (*sensor.GPUPass, error) {
	if data == nil {
		return nil, nil
	}
	var w wireGPUs
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("gpu: %w", err)
	}
	p := new(sensor.GPUPass)
	for _, r := range w.Devices {
		g, err := decodeShape[sensor.GPU](r.Figures, gpuShape())
		if err != nil {
			return nil, fmt.Errorf("gpu: %w", err)
		}
		g.Have = namesToBits(gpuNames, r.Have)
		p.Devices = append(p.Devices, g)
	}
	for _, r := range w.Uses {
		u, err := decodeShape[sensor.GPUUse](r.Figures, useShape())
		if err != nil {
			return nil, fmt.Errorf("gpu: %w", err)
		}
		u.Have = namesToBits(gpuNames, r.Have)
		p.Uses = append(p.Uses, u)
	}
	return p, nil
}

// scrubGPUs replaces names in the ids of devices.
func (s *Scrubber) scrubGPUs(p *sensor.GPUPass) *sensor.GPUPass {
	if p == nil {
		return nil
	}
	out := new(sensor.GPUPass)
	for _, g := range p.Devices {
		g.Device, g.Parent, g.Model = s.Text(g.Device), s.Text(g.Parent), s.Text(g.Model)
		out.Devices = append(out.Devices, g)
	}
	for _, u := range p.Uses {
		u.Device = s.Text(u.Device)
		out.Uses = append(out.Uses, u)
	}
	return out
}
