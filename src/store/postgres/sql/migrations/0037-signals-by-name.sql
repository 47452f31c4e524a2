-- A signal is compared by its `once` with those of its own name.
DROP INDEX sluice.flow_signals_once;
CREATE UNIQUE INDEX flow_signals_once ON sluice.flow_signals (flow, name, once)
WHERE once IS NOT NULL;
