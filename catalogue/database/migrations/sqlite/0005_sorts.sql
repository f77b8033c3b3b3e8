-- Every field that a list can be sorted by has an index: a page of a million rows is then
-- read in its order, and not sorted.
CREATE INDEX workloads_by_cpu_user_seconds ON workloads (cpu_user_seconds);
CREATE INDEX workloads_by_cpu_system_seconds ON workloads (cpu_system_seconds);
CREATE INDEX workloads_by_cpu_wait_seconds ON workloads (cpu_wait_seconds);
CREATE INDEX workloads_by_cores_p50 ON workloads (cores_p50);
CREATE INDEX workloads_by_cores_max ON workloads (cores_max);
CREATE INDEX workloads_by_memory_bytes ON workloads (memory_bytes);
CREATE INDEX workloads_by_memory_byte_seconds ON workloads (memory_byte_seconds);
CREATE INDEX workloads_by_memory_mean_bytes ON workloads (memory_mean_bytes);
CREATE INDEX workloads_by_network_bytes ON workloads (network_bytes);
CREATE INDEX workloads_by_gpu_memory_peak_bytes ON workloads (gpu_memory_peak_bytes);
CREATE INDEX workloads_by_processes ON workloads (processes);
CREATE INDEX workloads_by_threads ON workloads (threads);
CREATE INDEX workloads_by_request_cores ON workloads (request_cores);
CREATE INDEX workloads_by_request_memory_bytes ON workloads (request_memory_bytes);
CREATE INDEX workloads_by_request_gpus ON workloads (request_gpus);
CREATE INDEX workloads_by_request_seconds ON workloads (request_seconds);
CREATE INDEX workloads_by_request_nodes ON workloads (request_nodes);
CREATE INDEX workloads_by_oom_kills ON workloads (oom_kills);
CREATE INDEX workloads_by_cpu_throttled_seconds ON workloads (cpu_throttled_seconds);
CREATE INDEX workloads_by_major_faults ON workloads (major_faults);
CREATE INDEX workloads_by_swap_peak_bytes ON workloads (swap_peak_bytes);
