-- Rules of findings have the names of the field; ids stay, for they hash the names of before.
UPDATE findings SET rule = CASE rule
    WHEN 'hog' THEN 'over-share'
    WHEN 'misfit' THEN 'gpu-unused'
    WHEN 'greedy' THEN 'over-requested'
    WHEN 'deadweight' THEN 'idle-allocation'
    WHEN 'vampire' THEN 'many-small-jobs'
    WHEN 'thrash' THEN 'memory-thrashing'
    ELSE rule END;
