-- The figures of a run that are not exact, as JSON by key: {"cpu_seconds":"at least"}; empty for none.
ALTER TABLE workloads ADD COLUMN exactness TEXT NOT NULL DEFAULT '';
