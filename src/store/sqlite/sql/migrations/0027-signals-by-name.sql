-- A signal is compared by its `once` with those of its own name.
DROP INDEX flow_signals_once;
CREATE UNIQUE INDEX flow_signals_once ON flow_signals (flow, name, once) WHERE once IS NOT NULL;
