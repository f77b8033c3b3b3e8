-- What is told of a workload: on its page.
CREATE INDEX findings_workload ON findings (workload);
