package compat

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"reckon/metric"
)

// builder builds a batch from lines "name{a=b,c=d} value".
type builder struct {
	descs  map[string]*metric.Desc
	series map[string]*metric.Series
	batch  metric.Batch
}

func (m *builder) at(t time.Time, lines map[string]float64) *metric.Batch {
	if m.descs == nil {
		m.descs, m.series = map[string]*metric.Desc{}, map[string]*metric.Series{}
	}
	m.batch.Reset(t)
	for line, v := range lines {
		s := m.series[line]
		if s == nil {
			name, rest, _ := strings.Cut(strings.TrimSuffix(line, "}"), "{")
			var labels, values []string
			for _, kv := range strings.Split(rest, ",") {
				if k, v, ok := strings.Cut(kv, "="); ok {
					labels, values = append(labels, k), append(values, v)
				}
			}
			key := name + strings.Join(labels, ",")
			if m.descs[key] == nil {
				m.descs[key] = &metric.Desc{Name: name, Labels: labels}
			}
			s = metric.NewSeries(m.descs[key], values...)
			m.series[line] = s
		}
		m.batch.Add(s, v)
	}
	return &m.batch
}

// text formats a sample as in a scrape, without empty labels.
func text(s *metric.Series) string {
	var l []string
	for i, v := range s.Values {
		if v != "" {
			l = append(l, s.Desc.Labels[i]+"="+v)
		}
	}
	return s.Desc.Name + "{" + strings.Join(l, ",") + "}"
}

func show(t *testing.T, v View, before, after map[string]float64) map[string]float64 {
	t.Helper()
	var m builder
	at := time.Unix(1_800_000_000, 0)
	b := m.at(at, before)
	v.Append(b, len(b.Samples))
	b = m.at(at.Add(10*time.Second), after)
	n := len(b.Samples)
	v.Append(b, n)
	known := map[*metric.Desc]bool{}
	for _, d := range v.Descs() {
		known[d] = true
	}
	out := map[string]float64{}
	for _, s := range b.Samples[n:] {
		if !known[s.Series.Desc] {
			t.Errorf("%s is not in Descs", s.Series.Desc.Name)
		}
		k := text(s.Series)
		if _, twice := out[k]; twice {
			t.Errorf("%s is there twice", k)
		}
		out[k] = s.Value
	}
	return out
}

func want(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for k, v := range want {
		g, ok := got[k]
		if !ok || math.Abs(g-v) > 1e-9*max(1, v) {
			t.Errorf("%s: got %v (%v), want %v", k, g, ok, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("also %s %v", k, v)
		}
	}
}

// TestKeplerModelled: Kepler's zones are measured; modelled energy must not look like one of them.
func TestKeplerModelled(t *testing.T) {
	const n = "reckon_node_attributed_energy_joules_total"
	step := func(f float64) map[string]float64 {
		return map[string]float64{
			n + "{domain=board,share=active,method=modelled}": 100 * f,
			"reckon_workload_energy_joules_total{workload=group/n1/77-18,kind=group,part=,owner=al,domain=package,share=active,method=modelled}": 40 * f,
		}
	}
	want(t, show(t, Kepler("n1"), step(1), step(2)), map[string]float64{
		"kepler_node_cpu_joules_total{zone=modelled,node_name=n1}":                                                          200,
		"kepler_node_cpu_watts{zone=modelled,node_name=n1}":                                                                 10,
		"kepler_node_cpu_active_joules_total{zone=modelled,node_name=n1}":                                                   200,
		"kepler_node_cpu_active_watts{zone=modelled,node_name=n1}":                                                          10,
		"kepler_process_cpu_joules_total{pid=77,comm=group/n1/77-18,type=regular,state=running,zone=modelled,node_name=n1}": 80,
		"kepler_process_cpu_watts{pid=77,comm=group/n1/77-18,type=regular,state=running,zone=modelled,node_name=n1}":        4,
	})
}

func TestKepler(t *testing.T) {
	const e, n = "reckon_workload_energy_joules_total", "reckon_node_attributed_energy_joules_total"
	step := func(f float64) map[string]float64 {
		return map[string]float64{
			n + "{domain=package,share=active,method=measured}":                                                                          100 * f,
			n + "{domain=package,share=idle,method=measured}":                                                                            50 * f,
			n + "{domain=gpu,share=active,method=measured}":                                                                              900 * f,
			e + "{workload=group/n1/77-18,kind=group,part=,owner=al,domain=package,share=active,method=measured}":                        40 * f,
			e + "{workload=group/n1/77-18,kind=group,part=,owner=al,domain=gpu,share=active,method=measured}":                            900 * f,
			e + "{workload=deployment/shop/cart,kind=deployment,part=cart-1/app,owner=shop,domain=package,share=active,method=measured}": 60 * f,
			"reckon_workload_info{workload=group/n1/77-18,kind=group,part=,owner=al,name=,account=,partition=,command=python3}":          1,
			"reckon_workload_cpu_seconds_total{workload=group/n1/77-18,kind=group,part=,owner=al,mode=user}":                             8 * f,
			"reckon_workload_cpu_seconds_total{workload=group/n1/77-18,kind=group,part=,owner=al,mode=system}":                           2 * f,
			"node_cpu_seconds_total{cpu=0,mode=idle}":                                                                                    5 * f,
			"node_cpu_seconds_total{cpu=0,mode=user}":                                                                                    15 * f,
		}
	}
	want(t, show(t, Kepler("n1"), step(1), step(2)), map[string]float64{
		"kepler_node_cpu_joules_total{zone=package,node_name=n1}":                                                                      300,
		"kepler_node_cpu_watts{zone=package,node_name=n1}":                                                                             15,
		"kepler_node_cpu_active_joules_total{zone=package,node_name=n1}":                                                               200,
		"kepler_node_cpu_active_watts{zone=package,node_name=n1}":                                                                      10,
		"kepler_node_cpu_idle_joules_total{zone=package,node_name=n1}":                                                                 100,
		"kepler_node_cpu_idle_watts{zone=package,node_name=n1}":                                                                        5,
		"kepler_node_cpu_usage_ratio{node_name=n1}":                                                                                    0.75,
		"kepler_node_cpu_info{processor=0}":                                                                                            1,
		"kepler_process_cpu_joules_total{pid=77,comm=python3,type=regular,state=running,zone=package,node_name=n1}":                    80,
		"kepler_process_cpu_watts{pid=77,comm=python3,type=regular,state=running,zone=package,node_name=n1}":                           4,
		"kepler_process_cpu_seconds_total{pid=77,comm=python3,type=regular,node_name=n1}":                                              20,
		"kepler_container_cpu_joules_total{container_id=app,container_name=app,state=running,zone=package,pod_id=cart-1,node_name=n1}": 120,
		"kepler_container_cpu_watts{container_id=app,container_name=app,state=running,zone=package,pod_id=cart-1,node_name=n1}":        6,
		"kepler_pod_cpu_joules_total{pod_id=cart-1,pod_name=cart-1,pod_namespace=shop,state=running,zone=package,node_name=n1}":        120,
		"kepler_pod_cpu_watts{pod_id=cart-1,pod_name=cart-1,pod_namespace=shop,state=running,zone=package,node_name=n1}":               6,
	})
}

func TestDCGM(t *testing.T) {
	const (
		id  = "vendor=nvidia,device=GPU-1,index=0"
		mig = "vendor=nvidia,device=MIG-1,index=0"
		of  = "workload=job/ml/train,kind=job,part=train-x/main,owner=ml"
	)
	step := func(f float64) map[string]float64 {
		return map[string]float64{
			"reckon_gpu_info{" + id + ",model=H200,driver=570.1,parent=,pci=00000000:1B:00.0,partition=}":                                          1,
			"reckon_gpu_info{" + mig + ",model=H200 MIG 1g.18gb,driver=570.1,parent=GPU-1,pci=,partition=7}":                                       1,
			"reckon_gpu_power_watts{vendor=amd,device=0000:03:00.0,index=0}":                                                                       1,
			"reckon_gpu_power_watts{" + id + "}":                                                                                                   350,
			"reckon_gpu_energy_joules_total{" + id + "}":                                                                                           3500 * f,
			"reckon_gpu_busy_seconds_total{" + id + "}":                                                                                            7.5 * f,
			"reckon_gpu_engine_busy_seconds_total{" + id + ",engine=encoder}":                                                                      1.5 * f,
			"reckon_gpu_engine_busy_seconds_total{" + mig + ",engine=tensor}":                                                                      2.5 * f,
			"reckon_gpu_clock_hertz{" + id + ",clock=compute}":                                                                                     1.98e9,
			"reckon_gpu_clock_hertz{" + id + ",clock=video}":                                                                                       1e9,
			"reckon_gpu_memory_bytes{" + id + "}":                                                                                                  30 << 20,
			"reckon_gpu_memory_size_bytes{" + id + "}":                                                                                             100 << 20,
			"reckon_gpu_memory_reserved_bytes{" + id + "}":                                                                                         5 << 20,
			"reckon_gpu_temperature_celsius{" + id + ",place=core}":                                                                                61,
			"reckon_gpu_xid_last{" + id + "}":                                                                                                      79,
			"reckon_gpu_remapped_rows{" + id + ",type=uncorrected}":                                                                                2,
			"reckon_gpu_link_bytes_total{" + id + ",link=nvlink,direction=sent}":                                                                   3e7 * f,
			"reckon_gpu_link_bytes_total{" + id + ",link=nvlink,direction=received}":                                                               1e7 * f,
			"reckon_gpu_link_bytes_total{" + id + ",link=pcie,direction=received}":                                                                 5e6 * f,
			"reckon_container_info{" + of + ",namespace=ml,pod=train-x,uid=u,container=main,type=main,image=i}":                                    1,
			"reckon_container_device_info{" + of + ",resource=nvidia.com/gpu,device=GPU-1}":                                                        1,
			"reckon_container_device_info{" + of + ",resource=nvidia.com/mig-1g.18gb,device=MIG-1}":                                                1,
			"reckon_container_device_info{workload=job/ml/b,kind=job,part=b-x/main,owner=ml,resource=x,device=MIG-1}":                              1,
			"reckon_container_info{workload=job/ml/b,kind=job,part=b-x/main,owner=ml,namespace=ml,pod=b-x,uid=v,container=main,type=main,image=i}": 1,
		}
	}
	l := "{gpu=0,UUID=GPU-1,pci_bus_id=00000000:1B:00.0,device=nvidia0,modelName=H200,Hostname=n1,DCGM_FI_DRIVER_VERSION=570.1,container=main,namespace=ml,pod=train-x}"
	m := "{gpu=0,UUID=GPU-1,pci_bus_id=00000000:1B:00.0,device=nvidia0,modelName=H200,GPU_I_PROFILE=1g.18gb,GPU_I_ID=7,Hostname=n1,DCGM_FI_DRIVER_VERSION=570.1}"
	want(t, show(t, DCGM("n1"), step(1), step(2)), map[string]float64{
		"DCGM_FI_DEV_POWER_USAGE" + l: 350, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" + l: 7e6, "DCGM_FI_DEV_GPU_UTIL" + l: 75,
		"DCGM_FI_DEV_SM_CLOCK" + l: 1980, "DCGM_FI_DEV_FB_USED" + l: 30, "DCGM_FI_DEV_FB_FREE" + l: 65, "DCGM_FI_DEV_FB_RESERVED" + l: 5,
		"DCGM_FI_DEV_GPU_TEMP" + l: 61, "DCGM_FI_DEV_ENC_UTIL" + l: 15, "DCGM_FI_DEV_XID_ERRORS" + l: 79, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS" + l: 2,
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" + l: 4, "DCGM_FI_PROF_PCIE_RX_BYTES" + l: 5e5, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" + m: 0.25,
	})
}

// TestDCGMDefaults: the view has all default counters of dcgm-exporter 4.5 except the one of guests.
func TestDCGMDefaults(t *testing.T) {
	have := map[string]bool{}
	for _, d := range DCGM("n1").Descs() {
		if have[d.Name] {
			t.Errorf("%s is listed twice", d.Name)
		}
		have[d.Name] = true
	}
	for name := range strings.FieldsSeq(`DEV_SM_CLOCK DEV_MEM_CLOCK DEV_MEMORY_TEMP DEV_GPU_TEMP DEV_POWER_USAGE
		DEV_TOTAL_ENERGY_CONSUMPTION DEV_PCIE_REPLAY_COUNTER DEV_GPU_UTIL DEV_MEM_COPY_UTIL DEV_ENC_UTIL DEV_DEC_UTIL DEV_XID_ERRORS
		DEV_FB_FREE DEV_FB_USED DEV_FB_RESERVED DEV_UNCORRECTABLE_REMAPPED_ROWS DEV_CORRECTABLE_REMAPPED_ROWS DEV_ROW_REMAP_FAILURE
		DEV_NVLINK_BANDWIDTH_TOTAL PROF_GR_ENGINE_ACTIVE PROF_PIPE_TENSOR_ACTIVE PROF_DRAM_ACTIVE PROF_PCIE_TX_BYTES PROF_PCIE_RX_BYTES`) {
		if !have["DCGM_FI_"+name] {
			t.Errorf("DCGM_FI_%s is missing", name)
		}
	}
}

func TestCAdvisor(t *testing.T) {
	const id = "workload=deployment/shop/cart,kind=deployment,part=cart-1/app,owner=shop"
	lines := map[string]float64{
		"reckon_workload_cpu_seconds_total{" + id + ",mode=user}":                                                                 8,
		"reckon_workload_cpu_seconds_total{" + id + ",mode=system}":                                                               2,
		"reckon_workload_memory_bytes{" + id + ",type=anon}":                                                                      70,
		"reckon_workload_memory_bytes{" + id + ",type=file}":                                                                      30,
		"reckon_workload_memory_bytes{workload=container/abc,kind=container,part=,owner=root,type=anon}":                          9,
		"reckon_workload_info{workload=container/abc,kind=container,part=,owner=root,name=web,account=,partition=,command=nginx}": 1,
		"node_cpu_seconds_total{cpu=0,mode=idle}":                                                                                 5, "node_cpu_seconds_total{cpu=1,mode=idle}": 5, "node_cpu_seconds_total{cpu=1,mode=user}": 5,
		"node_memory_MemTotal_bytes{}": 1000,
		"reckon_workload_processes{workload=unit/a.service,kind=unit,part=,owner=root}": 3,
	}
	l := "{id=deployment/shop/cart,container=app,name=cart-1/app,namespace=shop,pod=cart-1,image=unknown"
	c := "{id=container/abc,container=abc,name=web,image=unknown"
	want(t, show(t, CAdvisor("n1"), lines, lines), map[string]float64{
		"container_cpu_usage_seconds_total" + l + ",cpu=total}": 10, "container_cpu_user_seconds_total" + l + "}": 8, "container_cpu_system_seconds_total" + l + "}": 2,
		"container_memory_usage_bytes" + l + "}": 100, "container_memory_rss" + l + "}": 70, "container_memory_cache" + l + "}": 30,
		"container_processes{id=unit/a.service}": 3,
		"container_memory_usage_bytes" + c + "}": 9, "container_memory_rss" + c + "}": 9,
		"machine_cpu_cores{}": 2, "machine_memory_bytes{}": 1000,
	})
}

func TestNew(t *testing.T) {
	v, err := New("n1", append(Names(), Names()...))
	if err != nil || len(v) != len(Names()) {
		t.Errorf("%d views of %d, %v", len(v), len(Names()), err)
	}
	for i, x := range v {
		if x.Name() != Names()[i] {
			t.Errorf("%s calls itself %s", Names()[i], x.Name())
		}
	}
	if _, err := New("n1", []string{"ganglia"}); err == nil || !strings.Contains(err.Error(), "kepler") {
		t.Errorf("%v, want it to name those that there are", err)
	}
}

func TestViewsAllocateNothing(t *testing.T) {
	var m builder
	lines := map[string]float64{
		"reckon_workload_energy_joules_total{workload=group/n1/77-18,kind=group,part=,owner=al,domain=package,share=active,method=measured}": 5,
		"reckon_workload_cpu_seconds_total{workload=group/n1/77-18,kind=group,part=,owner=al,mode=user}":                                     8,
		"reckon_gpu_info{vendor=nvidia,device=GPU-1,index=0,model=H200,driver=1,parent=}":                                                    1,
		"reckon_gpu_power_watts{vendor=nvidia,device=GPU-1,index=0}":                                                                         1,
	}
	maps.Copy(lines, cart())
	views, err := New("n1", Names())
	if err != nil {
		t.Fatal(err)
	}
	b := m.at(time.Unix(1_800_000_000, 0), lines)
	n := len(b.Samples)
	round := func() {
		b.Samples = b.Samples[:n]
		b.Time = b.Time.Add(time.Second)
		for _, v := range views {
			v.Append(b, n)
		}
	}
	for range 5 {
		round()
	}
	if a := testing.AllocsPerRun(20, round); a != 0 {
		t.Errorf("a round allocates %v times", a)
	}
}
