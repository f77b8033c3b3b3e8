-- The sorts that had no index.
CREATE INDEX workloads_by_exit_code ON workloads (exit_code NULLS FIRST);
CREATE INDEX workloads_by_site ON workloads (site);
