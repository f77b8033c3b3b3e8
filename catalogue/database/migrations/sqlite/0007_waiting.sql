-- What waits has until_ms 9007199254740990 and no wall time: it has not begun.
DROP INDEX workloads_wall;
CREATE INDEX workloads_wall ON workloads ((CASE until_ms WHEN 9007199254740991 THEN seen_ms WHEN 9007199254740990 THEN start_ms ELSE until_ms END - start_ms));
