-- What was asked for by what began when, of workloads of which it is known when they were
-- handed in: what comparable ones waited is read from here.
CREATE INDEX workloads_waits ON workloads (start_ms, request_cores, request_memory_bytes, request_gpus) WHERE submit_ms IS NOT NULL;
