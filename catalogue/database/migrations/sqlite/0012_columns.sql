-- Lists are answered from columns in memory, or by looking at each row where there are few.
-- What served lists alone goes: it made every write slow.
DROP INDEX workloads_wall;
DROP INDEX workloads_cpu;
DROP INDEX workloads_cores_mean;
DROP INDEX workloads_cores_p95;
DROP INDEX workloads_memory;
DROP INDEX workloads_read;
DROP INDEX workloads_write;
DROP INDEX workloads_gpu;
DROP INDEX workloads_energy;
DROP INDEX workloads_name;
DROP INDEX workloads_owner_cpu;
DROP INDEX workloads_owner_name;
DROP INDEX workloads_owner_start;
DROP INDEX workloads_kind_start;
DROP INDEX workloads_account_start;
DROP INDEX workloads_partition_start;
DROP INDEX workloads_state_start;
DROP INDEX workloads_command_start;
DROP INDEX workloads_start;
DROP INDEX workloads_until;
DROP INDEX workloads_long;
DROP INDEX workloads_submit;
DROP INDEX workloads_seen;
DROP INDEX workloads_by_cpu_user_seconds;
DROP INDEX workloads_by_cpu_system_seconds;
DROP INDEX workloads_by_cpu_wait_seconds;
DROP INDEX workloads_by_cores_p50;
DROP INDEX workloads_by_cores_max;
DROP INDEX workloads_by_memory_bytes;
DROP INDEX workloads_by_memory_byte_seconds;
DROP INDEX workloads_by_memory_mean_bytes;
DROP INDEX workloads_by_network_bytes;
DROP INDEX workloads_by_gpu_memory_peak_bytes;
DROP INDEX workloads_by_processes;
DROP INDEX workloads_by_threads;
DROP INDEX workloads_by_request_cores;
DROP INDEX workloads_by_request_memory_bytes;
DROP INDEX workloads_by_request_gpus;
DROP INDEX workloads_by_request_seconds;
DROP INDEX workloads_by_request_nodes;
DROP INDEX workloads_by_oom_kills;
DROP INDEX workloads_by_cpu_throttled_seconds;
DROP INDEX workloads_by_major_faults;
DROP INDEX workloads_by_swap_peak_bytes;
DROP INDEX workloads_by_exit_code;
DROP INDEX workloads_by_site;
DROP TABLE workload_nodes;
DROP TABLE workload_counts;
DROP TABLE workload_names;
-- What has no end, and what ended long ago.
CREATE INDEX workloads_until ON workloads (until_ms);
-- What is told of a workload: on its page.
CREATE INDEX findings_workload ON findings (workload);
-- Counts the writes to the workloads, so that a program knows whether another one wrote.
CREATE TABLE generation (n BIGINT NOT NULL);
INSERT INTO generation (n) VALUES (0);
