-- The runs of one name of one owner, which a job's page holds it against.
CREATE INDEX workloads_owner_name ON workloads (owner, name, start_ms);
