package efficiency

import (
	"reckon/figure"
	"reckon/internal/phrase"
)

// GPUEngines is the activity of GPU engines, on devices that count them and that the workload used alone.
type GPUEngines struct {
	BusySeconds float64            // busy time of the GPUs, added up
	Shares      map[string]float64 // share of that time by engine: sm, tensor, fp64, fp32, fp16, dram
}

const (
	telling   = 60    // busy seconds of the GPUs before their engines are judged
	untouched = 0.005 // share of the time: the most that an idle pipe counts
	sparse    = 0.3   // of the multiprocessors
	streaming = 0.6   // of the peak memory traffic; pure copies reach 0.8 to 0.9
	feeding   = 0.95  // cores that work per GPU while the GPU does not
)

// gpuKind describes the use of GPU engines.
func (j *judge) gpuKind() {
	e := j.u.GPUEngines
	given, has := figure.Known(j.u.GPUs)
	if e == nil || e.BusySeconds < telling || !has || given <= 0 {
		return
	}
	w := phrase.Words{"gpus": quantity(given, "GPU", "GPUs"), "its": withNoun(given, "GPU")}
	tensor, hasTensor := e.Shares["tensor"]
	fp64, hasFP64 := e.Shares["fp64"]
	sm, hasSM := e.Shares["sm"]
	dram, hasDRAM := e.Shares["dram"]
	share := phrase.Percent
	if hasSM && sm < sparse {
		w["share"] = share(sm)
		j.addVerdict("gpu-kind", Info, sm, "ratio", "gpu.sparse", w)
	}
	if hasDRAM && dram >= streaming {
		w["share"] = share(dram)
		j.addVerdict("gpu-kind", Info, dram, "ratio", "gpu.memory", w)
	}
	switch {
	case !hasTensor:
	case tensor >= untouched:
		w["share"] = share(tensor)
		j.addVerdict("gpu-kind", Info, tensor, "ratio", "gpu.tensor", w)
	case hasFP64 && fp64 >= untouched:
		w["share"] = share(fp64)
		j.addVerdict("gpu-kind", Info, fp64, "ratio", "gpu.double", w)
	case hasFP64:
		j.addVerdict("gpu-kind", Info, tensor, "ratio", "gpu.single", w)
	}
}

// gpuHost reports GPUs that waited while the processes worked.
func (j *judge) gpuHost() {
	u := &j.u
	used, ok := figure.Known(u.GPUSeconds)
	given, has := figure.Known(u.GPUs)
	cpu, counted := figure.Known(u.CPUSeconds)
	if !ok || !has || given <= 0 || !counted || used == 0 || u.Exactness["gpu_seconds"] != figure.Exact ||
		u.Exactness["cpu_seconds"] != figure.Exact {
		return
	}
	share, mean := used/(given*u.WallSeconds), cpu/u.WallSeconds
	if share < low && mean >= feeding*given {
		j.addVerdict("gpu-host", Info, 1-share, "ratio", "gpu.host",
			phrase.Words{"its": withNoun(given, "GPU"), "gpus": counted1(given, "GPU", "GPUs"), "share": phrase.Percent(1 - share),
				"mean": counted1(mean, "core", "cores")})
	}
}
