-- What a batch system tells: the state of a workload and why, and when it was handed in
-- (NULL when unknown); and trouble that the kernel counts.
ALTER TABLE workloads ADD COLUMN state TEXT NOT NULL DEFAULT '';
ALTER TABLE workloads ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE workloads ADD COLUMN submit_ms BIGINT;
ALTER TABLE workloads ADD COLUMN request_nodes DOUBLE PRECISION;
ALTER TABLE workloads ADD COLUMN oom_kills DOUBLE PRECISION;
ALTER TABLE workloads ADD COLUMN cpu_throttled_seconds DOUBLE PRECISION;
ALTER TABLE workloads ADD COLUMN major_faults DOUBLE PRECISION;
ALTER TABLE workloads ADD COLUMN swap_peak_bytes DOUBLE PRECISION;
